#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libs/base/ids.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"
#include "sdk/cpp/src/bound/reading_leases.h"
#include "sdk/cpp/src/bound/unseen_updates.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/wait_reports.h"

namespace paceline::sdk {

// Value bounds (VAP, docs/consistency.md): holds pushes back that would exceed the bound of what not all
// readers have seen, and keeps the promises that this client has given as a reader. What it has to say goes
// with the subscribe streams.
class ValueBounds {
 public:
  explicit ValueBounds(Context& context) : context_(context) {}
  // Called when values that wait may be fit now.
  std::function<void()> on_readable = [] {};

  // -- pushes. REQUIRES: the table is under a value bound (IsBounded) --
  bool Fits(const TableInfo& table, const WeighedPush& push) const {
    return unseen_.Fits(push, BoundOf(table));
  }
  // Grows when more is seen: until then a push that did not fit does not fit.
  uint64_t news() const { return unseen_.news(); }
  // The push waits until it fits, or may have to: until EndAwait, asks to be told what all have seen of that
  // which is in its way. Returns its number, not 0.
  uint64_t Await(std::shared_ptr<const TableInfo> table, std::shared_ptr<const WeighedPush> push);
  void EndAwait(uint64_t id) { awaiting_.erase(id); }
  // The push was made, up to part `number(segment)` of each segment.
  void Pushed(const TableInfo& table, const WeighedPush& push,
              absl::FunctionRef<PartNumber(SegmentId)> number);
  // All readers have seen the parts up to this one.
  void CountAsSeen(SegmentId segment, PartNumber upto) { (void)unseen_.Seen(segment, upto); }
  // Whom the push waits for, as far as it is known: "worker 2 (session 7)", or a phrase.
  std::string WaitsFor(const TableInfo& table, const WeighedPush& push) const;
  // The push that has waited longest; nullopt: there is none.
  std::optional<Waiting> Waits() const;

  // -- reads --
  void Want(SegmentId segment);
  ReadingLeases::Verdict Judge(const wire::Certificate& certificate) const {
    return leases_.Judge(certificate, context_.Now());
  }
  void Hold(SegmentId segment) { leases_.Hold(segment); }
  void Release(SegmentId segment);

  // -- the subscribe streams --
  using Mine = absl::FunctionRef<bool(SegmentId)>;
  // Segments of which something is to be said since the last call.
  std::vector<SegmentId> TakeDue();
  bool HasToSay(Mine mine) const;
  // Adds what is to be said of those segments that are `mine`. False: nothing is.
  bool TakeToSay(Mine mine, v1::SubscribeRequest& request);
  // REQUIRES: the sender is the segment's primary.
  void OnRound(const wire::Round& round);
  // All rounds of a message were taken.
  void OnRoundsTaken();
  // The stream to the segment's primary is gone, or the segment has another one.
  void Lost(SegmentId segment);
  bool empty() const { return leases_.empty() && wishes_.empty() && awaiting_.empty(); }

 private:
  // A question under way.
  struct Wish {
    PartNumber wanted = 0;
    PartNumber said = 0;  // on the present stream
    // Whom the segment's round waits for, by the last answer.
    SessionId awaited = {};
    uint32_t rank_plus_one = 0;
  };

  struct Awaiting {
    std::shared_ptr<const TableInfo> table;
    std::shared_ptr<const WeighedPush> push;
    absl::Time since;
    // news() when it last did not fit: as long as that stays, its rows need not be looked at.
    mutable std::optional<uint64_t> unfit_at = std::nullopt;
  };

  bool Fits(const Awaiting& awaiting) const;
  double BoundOf(const TableInfo& table) const;
  void AskFor(const Awaiting& awaiting);
  // … if the segment is in the way of a push that waits.
  void AskIfAwaited(SegmentId segment);
  // Asks whether all have seen what was pushed so far, unless a question is under way. One at a time: one
  // that grew with each push might have no answer as long as pushes go on.
  void Ask(SegmentId segment);
  bool HasToSay(SegmentId segment) const;
  // Lets something be said soon, and regularly from then on.
  void Note();
  void Beat();

  Context& context_;
  UnseenUpdates unseen_;
  ReadingLeases leases_;
  std::map<SegmentId, Wish> wishes_;
  std::map<uint64_t, Awaiting> awaiting_;
  uint64_t awaits_ = 0;    // counts them
  bool noted_ = false;     // something may be due
  bool readable_ = false;  // values that wait may be fit by now
  bool beating_ = false;   // a timer is set
  uint64_t beat_ = 0;      // of the last message
};

}  // namespace paceline::sdk
