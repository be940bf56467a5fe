#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "libs/base/ids.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/timers.h"

namespace paceline::sdk {

class PushLink;
struct PullOp;
struct PushOp;
struct TableInfo;

// The content of a push for one segment. Number and content are fixed when the part is made, and kept until
// it is committed, through every resend.
struct Part {
  PushOp* op = nullptr;
  TableId table;
  const TableInfo* info = nullptr;  // of the table; the push keeps it
  bool ranges = false;
  std::shared_ptr<const Batch> batch;  // null: an empty part, which only takes its number
  uint32_t piece = 0;                  // of the batch
  Clock clock = 0;
  uint32_t priority = 0;
  uint64_t push = 0;                       // count of the push it belongs to
  std::shared_ptr<PullOp> read = nullptr;  // the pull that wants this part's rows back; null: none

  PartNumber number = 0;  // set by SegmentLine::Append
  uint32_t urgency = 0;   // the highest priority from here to the end of the line: no part overtakes another
  // Of its latest sending; a refusal of an earlier one is void.
  uint64_t frame = 0;        // of the stream; 0: waits to be sent
  PartNumber committed = 0;  // the line's committed mark at that time

  const Batch::Piece* Content() const { return batch == nullptr ? nullptr : &batch->pieces[piece]; }
  size_t KeyBytes() const { return batch == nullptr ? 0 : batch->KeyBytes(*Content()); }
  size_t ValueBytes() const { return batch == nullptr ? 0 : batch->ValueBytes(*Content()); }
  size_t Bytes() const { return KeyBytes() + ValueBytes(); }
};

// Place of a line in a link's queue: the most urgent first, then in the order of the pushes.
struct QueueKey {
  uint32_t not_urgency = 0;  // its complement
  uint64_t push = 0;
  uint32_t rank = 0;  // of the segment: neighbours lie side by side in memory
  uint64_t line = 0;  // makes the key unique
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

// One session's line of numbered parts in one segment: the parts that are not committed yet, of which the
// first ones are under way and the others wait; and the counts that ticks need of parts that are gone.
//
//   committed | sent, kept for a resend | waiting      → numbers grow
class SegmentLine {
 public:
  SegmentLine(SegmentId segment, Line kind) : segment_(segment), kind_(kind) {}

  SegmentId segment() const { return segment_; }
  Line kind() const { return kind_; }
  // Unique among lines, ascending by segment.
  uint64_t id() const { return uint64_t{segment_.v} * 2 + static_cast<uint64_t>(kind_) - 1; }
  PartNumber committed() const { return committed_; }
  PartNumber last() const { return committed_ + parts_.size(); }
  bool HasWaiting() const { return sent_ < parts_.size(); }
  bool Empty() const { return parts_.empty(); }

  // Numbers the part. REQUIRES: its clock is not smaller than that of the part before it.
  void Append(Part part);

  // The next part to send. REQUIRES: HasWaiting().
  const Part& Next() const { return parts_[sent_]; }
  // The next part was sent, in frame `frame` of its stream.
  void Sent(uint64_t frame);

  // All parts from `from` on wait again. Returns how many of them had been sent.
  size_t Rewind(PartNumber from);
  size_t RewindAll() { return Rewind(0); }

  // Removes parts up to `upto`, oldest first. Marks may come late and twice: a smaller one does nothing.
  // REQUIRES: upto <= last().
  void Commit(PartNumber upto, absl::FunctionRef<void(const Part&)> committed);

  // nullptr: the part is committed or not made yet. Valid until the next change.
  Part* Find(PartNumber number);
  const std::deque<Part>& parts() const { return parts_; }

  // The last number of a clock < `clock`. REQUIRES: ForgetSeals was not called with a larger one.
  PartNumber SealedAt(Clock clock) const;
  // No caller will ask for an earlier clock.
  void ForgetSeals(Clock before);

  // -- state that Pusher and PushLink keep here --
  PushLink* link = nullptr;        // of the current primary
  std::optional<QueueKey> queued;  // in link's queue
  // Refused for now: nothing is sent before this timer fires, or this map version arrives.
  bool held = false;
  Timers::Id held_until;
  MapVersion held_for_map;
  std::string refused;  // the primary's message when it refused; nothing was committed since

 private:
  struct Seal {
    Clock clock = 0;
    PartNumber last = 0;  // of this clock
  };

  const SegmentId segment_;
  const Line kind_;
  PartNumber committed_ = 0;
  std::deque<Part> parts_;  // numbers committed_ + 1, committed_ + 2 …
  size_t sent_ = 0;         // of parts_
  std::deque<Seal> seals_;  // ascending in both
};

}  // namespace paceline::sdk
