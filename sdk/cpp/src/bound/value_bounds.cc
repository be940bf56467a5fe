#include "sdk/cpp/src/bound/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {

double ValueBounds::BoundOf(const TableInfo& table) const {
  const Promise promise = PromiseOf(table.consistency);
  const double clocks = 1 + static_cast<double>(context_.worker_clock);
  return *promise.value_bound / (promise.bound_decays ? std::sqrt(clocks) : 1);
}

// -- pushes --

void ValueBounds::Ask(SegmentId segment) {
  const PartNumber last = unseen_.Last(segment);
  if (last == 0 || wishes_.contains(segment)) return;
  wishes_[segment].wanted = last;
  Note();
}

void ValueBounds::AskFor(const Awaiting& awaiting) {
  for (const SegmentId segment : unseen_.InItsWay(*awaiting.push, BoundOf(*awaiting.table))) Ask(segment);
}

void ValueBounds::AskIfAwaited(SegmentId segment) {
  if (wishes_.contains(segment)) return;
  const bool awaited = std::ranges::any_of(awaiting_, [&](const auto& entry) {
    return unseen_.IsInItsWay(segment, *entry.second.push, BoundOf(*entry.second.table));
  });
  if (awaited) Ask(segment);
}

uint64_t ValueBounds::Await(std::shared_ptr<const TableInfo> table, std::shared_ptr<const WeighedPush> push) {
  Awaiting& awaiting = awaiting_[++awaits_];
  awaiting = {.table = std::move(table), .push = std::move(push), .since = context_.Now()};
  AskFor(awaiting);
  if (PromiseOf(awaiting.table->consistency).bound_decays)
    Note();  // the next clock may bring more in its way
  return awaits_;
}

bool ValueBounds::Fits(const Awaiting& awaiting) const {
  if (awaiting.unfit_at == news()) return false;
  const bool fits = Fits(*awaiting.table, *awaiting.push);
  awaiting.unfit_at = fits ? std::nullopt : std::optional(news());
  return fits;
}

std::optional<Waiting> ValueBounds::Waits() const {
  for (const auto& [id, awaiting] : awaiting_) {
    if (Fits(awaiting)) continue;
    return Waiting{.what = absl::StrCat("push to ", awaiting.table->Name(), " (value bound)"),
                   .since = awaiting.since,
                   .whom = WaitsFor(*awaiting.table, *awaiting.push)};
  }
  return std::nullopt;
}

void ValueBounds::Pushed(const TableInfo& table, const WeighedPush& push,
                         absl::FunctionRef<PartNumber(SegmentId)> number) {
  for (const SegmentId segment : unseen_.Add(push, BoundOf(table), number)) Ask(segment);
  for (const auto& [segment, rows] : push.segments) AskIfAwaited(segment);
}

std::string ValueBounds::WaitsFor(const TableInfo& table, const WeighedPush& push) const {
  for (const SegmentId segment : unseen_.InItsWay(push, BoundOf(table))) {
    const auto wish = wishes_.find(segment);
    if (wish == wishes_.end() || wish->second.awaited == SessionId()) continue;
    const std::string session = absl::StrCat("session ", wish->second.awaited.v);
    if (wish->second.rank_plus_one == 0) return session;
    return absl::StrCat("worker ", wish->second.rank_plus_one - 1, " (", session, ")");
  }
  return "readers' confirmations";
}

// -- reads --

void ValueBounds::Want(SegmentId segment) {
  leases_.Want(segment, context_.Now());
  Note();
}

void ValueBounds::Release(SegmentId segment) {
  leases_.Release(segment);
  Note();
}

// -- what is said --

void ValueBounds::Note() {
  noted_ = true;
  if (beating_ || empty()) return;
  beating_ = true;
  context_.timers.At(context_.Now() + ReadingLeases::kBeat, [this] { Beat(); });
}

void ValueBounds::Beat() {
  beating_ = false;
  leases_.Beat(context_.Now());
  for (auto& [segment, wish] : wishes_) wish.said = 0;  // its answer says whom it waits for
  // A bound that decays may be smaller by now.
  for (const auto& [id, awaiting] : awaiting_) AskFor(awaiting);
  if (!empty()) Note();
}

bool ValueBounds::HasToSay(SegmentId segment) const {
  if (leases_.HasToSay(segment, context_.Now())) return true;
  const auto wish = wishes_.find(segment);
  return wish != wishes_.end() && wish->second.said < wish->second.wanted && !leases_.Reads(segment);
}

bool ValueBounds::HasToSay(Mine mine) const {
  bool some = false;
  const auto look = [&](SegmentId segment) { some = some || (mine(segment) && HasToSay(segment)); };
  leases_.ForEach(look);
  for (const auto& [segment, wish] : wishes_) look(segment);
  return some;
}

std::vector<SegmentId> ValueBounds::TakeDue() {
  std::vector<SegmentId> due;
  if (!std::exchange(noted_, false)) return due;
  for (const auto& [segment, wish] : wishes_) {
    if (wish.said < wish.wanted) leases_.Due(segment);
    if (HasToSay(segment)) due.push_back(segment);
  }
  leases_.ForEach([&](SegmentId segment) {
    if (leases_.HasToSay(segment, context_.Now())) due.push_back(segment);
  });
  return due;
}

bool ValueBounds::TakeToSay(Mine mine, v1::SubscribeRequest& request) {
  std::vector<SegmentId> segments;
  const auto look = [&](SegmentId segment) {
    if (mine(segment) && HasToSay(segment)) segments.push_back(segment);
  };
  leases_.ForEach(look);
  for (const auto& [segment, wish] : wishes_) {
    if (!leases_.Reads(segment)) look(segment);
  }
  if (segments.empty()) return false;
  const absl::Time now = context_.Now();
  beat_ = std::max(beat_ + 1, ReadingLeases::BeatAt(now));
  request.set_beat(beat_);
  for (const SegmentId segment : segments) {
    wire::Reading reading = leases_.Say(segment, now, beat_).value_or(wire::Reading{.segment = segment});
    if (const auto wish = wishes_.find(segment); wish != wishes_.end()) {
      reading.wish = wish->second.wanted;
      wish->second.said = wish->second.wanted;
    }
    wire::Append(reading, *request.mutable_reading());
  }
  return true;
}

void ValueBounds::OnRound(const wire::Round& round) {
  CountAsSeen(round.segment, round.seen);
  if (const auto wish = wishes_.find(round.segment); wish != wishes_.end()) {
    wish->second.awaited = round.waits_for;
    wish->second.rank_plus_one = round.rank_plus_one;
    if (round.seen >= wish->second.wanted) {
      wishes_.erase(wish);
      AskIfAwaited(round.segment);
    }
  }
  readable_ |= leases_.Take(round);
  Note();
}

void ValueBounds::OnRoundsTaken() {
  if (std::exchange(readable_, false)) on_readable();
}

void ValueBounds::Lost(SegmentId segment) {
  leases_.Lost(segment);
  if (const auto wish = wishes_.find(segment); wish != wishes_.end()) wish->second.said = 0;
  Note();
}

}  // namespace paceline::sdk
