#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "libs/base/ids.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/timers.h"

namespace paceline::sdk {

class PushLink;
struct PullOp;
struct PushOp;
struct TableInfo;

// The content of a push for one segment, or some of it. Its content is fixed when the part is made. Its
// number is fixed then too, or, if it is `late`, when it is sent first. Both are kept until it is committed,
// through every resend.
struct Part {
  PushOp* op = nullptr;
  TableId table;
  const TableInfo* info = nullptr;  // of the table; the push keeps it
  bool ranges = false;
  std::shared_ptr<const Batch> batch;  // null: an empty part, which only takes its number
  uint32_t piece = 0;                  // of the batch
  Clock clock = 0;
  uint32_t priority = 0;                   // a lower number goes first
  bool late = false;                       // it gets its number when it is sent first
  bool filtered = false;                   // the batch is what a filter left
  uint64_t push = 0;                       // count of the push it belongs to
  std::shared_ptr<PullOp> read = nullptr;  // the pull that wants this part's rows back; null: none

  PartNumber number = 0;  // 0: it has none yet
  // The lowest priority from here to the end of the line: no part overtakes one that has a number.
  uint32_t urgency = 0;
  // Of its latest sending; a refusal of an earlier one is void.
  uint64_t frame = 0;        // of the stream; 0: waits to be sent
  PartNumber committed = 0;  // the line's committed mark at that time

  const Batch::Piece* Content() const { return batch == nullptr ? nullptr : &batch->pieces[piece]; }
  size_t KeyBytes() const { return batch == nullptr ? 0 : batch->KeyBytes(*Content()); }
  size_t ValueBytes() const { return batch == nullptr ? 0 : batch->ValueBytes(*Content()); }
  size_t Bytes() const { return KeyBytes() + ValueBytes(); }
};

// Place of a line in a link's queue: the oldest clock first, as nothing overtakes that of another segment
// either, then the most urgent, then in the order of the pushes. Otherwise the tick of a clock could wait for
// ever for a part that more urgent ones of later clocks overtake.
struct QueueKey {
  Clock clock = 0;
  uint32_t urgency = 0;
  uint64_t push = 0;
  uint32_t rank = 0;  // of the segment: neighbours lie side by side in memory
  uint64_t line = 0;  // makes the key unique
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

// One session's line of numbered parts in one segment: the parts that are not committed yet, of which the
// first ones are under way and the others wait; and the counts that ticks need of parts that are gone.
//
//   committed | sent, kept for a resend | waiting | late: without a number, by priority
//                      numbers grow →
//
// Late parts are all of one clock, the newest: those of an earlier clock could not be overtaken any more, and
// get their numbers before a part of a later clock is taken (docs/adr/0034-numbers-by-priority.md).
class SegmentLine {
 public:
  SegmentLine(SegmentId segment, Line kind) : segment_(segment), kind_(kind) {}

  SegmentId segment() const { return segment_; }
  Line kind() const { return kind_; }
  // Unique among lines, ascending by segment.
  uint64_t id() const { return uint64_t{segment_.v} * 2 + static_cast<uint64_t>(kind_) - 1; }
  PartNumber committed() const { return committed_; }
  // The last number that was given.
  PartNumber last() const { return committed_ + parts_.size(); }
  bool HasWaiting() const { return sent_ < parts_.size() || HasLate(); }
  bool Empty() const { return parts_.empty() && !HasLate(); }
  bool HasLate() const { return !late_.empty(); }
  bool HasLate(TableId table) const;

  // Takes the part, and numbers it if it is not late. REQUIRES: its clock is not smaller than that of the
  // part before it; if that is late and of an earlier clock, NumberFirst was called until there was none.
  void Append(Part part);
  // Numbers the late part of the lowest priority, and of these the one that came first. Returns it; valid
  // until the next change. REQUIRES: HasLate().
  const Part& NumberFirst();

  // The next part to send; its number is 0 if it is late. REQUIRES: HasWaiting().
  const Part& Next() const { return sent_ < parts_.size() ? parts_[sent_] : late_.begin()->second; }
  // The next part was sent, in frame `frame` of its stream. REQUIRES: it has a number.
  void Sent(uint64_t frame);
  // The part that was sent last went in this frame.
  bool SentIn(uint64_t frame) const { return sent_ > 0 && parts_[sent_ - 1].frame == frame; }

  // The number of the last part of `table`, of those that belong to pushes up to `push`, or a later one of
  // it; 0: there is none; nullopt: some of these parts are late. O(late parts).
  std::optional<PartNumber> LastOf(TableId table, uint64_t push) const;
  // True: it has a part of the push that is not committed.
  bool Has(const PushOp& op) const;

  // All parts from `from` on wait again. Returns how many of them had been sent.
  size_t Rewind(PartNumber from);
  size_t RewindAll() { return Rewind(0); }

  // Removes parts up to `upto`, oldest first. Marks may come late and twice: a smaller one does nothing.
  // REQUIRES: upto <= last().
  void Commit(PartNumber upto, absl::FunctionRef<void(const Part&)> committed);

  // nullptr: the part is committed, or there is none of this number yet. Valid until the next change.
  Part* Find(PartNumber number);
  // Those with numbers.
  const std::deque<Part>& parts() const { return parts_; }

  // For a planted bug: the last parts lose their numbers again, as far as they were late.
  void ForgetLateNumbers();

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
  int refusals = 0;     // in a row, of that primary

 private:
  struct Seal {
    Clock clock = 0;
    PartNumber last = 0;  // of this clock
  };

  void Number(Part part);
  // Of the parts from `end` of parts_ on; UINT32_MAX: there are none.
  uint32_t UrgencyFrom(size_t end) const;
  // Parts that wait before `end` of parts_ are as urgent as those behind.
  void Lend(size_t end, uint32_t urgency);

  const SegmentId segment_;
  const Line kind_;
  PartNumber committed_ = 0;
  std::deque<Part> parts_;              // numbers committed_ + 1, committed_ + 2 …
  size_t sent_ = 0;                     // of parts_
  std::multimap<uint32_t, Part> late_;  // by priority, in the order in which they came
  absl::flat_hash_map<TableId, PartNumber> last_of_;
  std::deque<Seal> seals_;  // ascending in both
};

}  // namespace paceline::sdk
