// The answers that a primary with other members may give: acknowledgements and min clocks of committed
// records only, and nothing unless it is certain to hold its place.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

void Primary::Begin(Epoch epoch, const std::vector<ring::Member>& replicas) {
  const bool goes_on = epoch.v == epoch_.v + 1;  // the first one is that of the constructor
  epoch_ = epoch;
  began_ = segment_.version();
  if (!goes_on) took_over_ = began_;
  hand_over_.End();
  // Updates of one epoch do not follow those of another.
  if (!subscriptions_.empty()) subscriptions_.EndAll(segment_.id(), NotNow("begins another epoch", 0));
  replicas_.Begin(epoch, replicas);
  // Min clocks come from what it began with, and are shown as soon as every member holds that.
  uncommitted_.BeginEpoch(segment_, replicas_.committed());
  Append(BeginEpoch{.epoch = epoch});
  MoveOnAll();
  Flush();
  replicas_.OnTime(segment_);  // nobody is answered until the replicas have lent their time
  Settle();
}

// Acts on the ticks that came while nothing could be written.
void Primary::MoveOnAll() {
  std::vector<JobId> jobs;
  for (const auto& [job, clock] : segment_.jobs()) jobs.push_back(job);
  for (const JobId job : jobs) MoveOn(job);
}

v1::Refusal Primary::NotNow(absl::string_view what, uint32_t retry_after_ms) const {
  v1::Refusal refusal = RefusalOf(v1::Refusal::UNAVAILABLE, segment_.id(),
                                  absl::StrCat("segment ", segment_.id().v, " ", what));
  refusal.set_retry_after_ms(retry_after_ms);
  if (const std::string whom = replicas_.WaitsFor(); !whom.empty()) {
    absl::StrAppend(refusal.mutable_message(), "; it waits for ", whom);
  }
  return refusal;
}

void Primary::Acknowledge(const std::shared_ptr<AckSink>& sink, wire::Mark mark) {
  const Lsn lsn = segment_.version();
  if (pending_acks() == 0 && replicas_.committed() >= lsn && MayAnswer()) {
    sink->Committed(mark);
    return shard_.records->Answered(segment_, epoch_);
  }
  uncommitted_.Add(lsn, sink, mark);
}

void Primary::Settle() {
  if (!MayAnswer()) return;
  const std::vector<std::shared_ptr<AckSink>> told = uncommitted_.Tell(replicas_.committed());
  if (!told.empty()) shard_.records->Answered(segment_, epoch_);
  for (const std::shared_ptr<AckSink>& sink : told) sink->Wake();
  TellSubscribers();
  AdvanceRounds();
  WakeParked();
}

void Primary::OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack) {
  if (replicas_.OnAck(from, ack, segment_)) SettleAndHandOver();
}

void Primary::OnDisk(v1::ReplicateReply::DiskState state, Lsn durable) {
  if (replicas_.OnOwnDisk(state, durable)) SettleAndHandOver();
}

void Primary::OnBeacon(const ring::Member& from, const v1::Beacon& beacon) {
  if (replicas_.OnBeacon(from, beacon)) SettleAndHandOver();
}

// -- what the coordinator is told --

void Primary::NoteChange(const Record& record) {
  if (const auto* close = std::get_if<CloseJob>(&record)) {
    uncommitted_.Forget(close->job);
    cuts_.Forget(close->job);
  }
  const std::optional<uint64_t> id = AskedAboutAs(record);
  if (id.has_value() && replicas_.safe() < segment_.version()) {
    uncommitted_.AddChange(record.index(), *id, segment_.version());
  }
  uncommitted_.NoteMinClocks(segment_, replicas_.committed());
}

bool Primary::MayChange(std::string* why) const {
  if (!handing_over() && MayAnswer()) return true;
  *why = NotNow(handing_over() ? "is being handed over" : "may not answer now", 0).message();
  return false;
}

void Primary::BeganEmpty(uint64_t change_floor) {
  sessions_.BeganEmpty();
  if (change_floor > segment_.changes().floor()) Append(BeginChange{.subject = {}, .floor = change_floor});
}

bool Primary::TakeUp(const BeginChange& change, std::string* why, bool* late) {
  if (!MayChange(why)) return false;
  const ChangeNumbers& known = segment_.changes();
  if (change.number == 0 || known.HasBegun(change.subject, change.number)) return true;
  if (known.IsLate(change.subject, change.number) && !Planted(Bug::kChangeOutOfNumber)) {
    if (Planted(Bug::kLateOpenAccepted) || Planted(Bug::kLateJoinAccepted)) return true;
    *late = true;
    *why = absl::StrCat("segment ", segment_.id().v, ": change ", change.number,
                        " comes too late: a newer one has begun, or it was over before");
    return false;
  }
  Append(change);
  return true;
}

bool Primary::ChangeCommitted(size_t kind, uint64_t id, std::string* why) {
  // A record of an earlier primary is committed together with the first record of this epoch. The coordinator
  // does not ask again, so a loss of power alone must not be able to undo the record.
  if (uncommitted_.IsSafe(kind, id, /*before=*/Lsn(began_.v + 1), replicas_.safe())) return true;
  *why = absl::StrCat("segment ", segment_.id().v, ": its record waits for ", replicas_.WaitsToBeSafe());
  return false;
}

// -- planned hand-overs --

// A primary that cannot serve as it should gives its place to a replica that can.
void Primary::HandOverIfUnfit(absl::Time now) {
  if (!hand_over_.MayBeginUnfit(now)) return;
  const std::optional<ring::Member> heir = replicas_.Heir();
  if (!heir.has_value()) return;
  hand_over_.PauseUnfit(now);
  HandOver(*heir);
}

void Primary::NoteServing(absl::Time now) {
  const bool serves = MayAnswer() && !replicas_.OwnDiskFails();
  serves_not_since_ = serves ? absl::InfiniteFuture() : std::min(serves_not_since_, now);
}

std::string Primary::WhyNotServing() const {
  if (now_ - serves_not_since_ < kServesNot) return "";
  const std::string whom = replicas_.WaitsFor();
  const absl::string_view waits = whom.empty() ? "" : "; it waits for ";
  if (replicas_.OwnDiskFails()) return absl::StrCat("read-only, as the disk fails", waits, whom);
  if (hand_over_.asked()) return "it was to be handed over, and no coordinator has answered";
  return absl::StrCat("nothing is answered", waits, whom);
}

bool Primary::HandOver(const ring::Member& to) {
  if (!replicas_.HasReplica(to)) return false;
  const absl::Time now = clock_->Now();
  if (!hand_over_.Begin(to, now)) return true;
  Flush();
  OnTimeOfHandOver(now);
  return true;
}

// True if the replica holds every record, and all that this primary can answer is answered.
bool Primary::MayBeReplaced() const {
  if (!hand_over_.under_way() || !replicas_.Holds(hand_over_.to()) || !MayAnswer()) return false;
  // Records that are not on a failing disk are never acknowledged here. But the replica has them, so it may
  // go on from there.
  return replicas_.committed() == segment_.version() || replicas_.OwnDiskFails();
}

// Nobody is served until the replica has the place, so the primary asks for it as soon as it may.
void Primary::SettleAndHandOver() {
  Settle();
  if (!hand_over_.asked() && MayBeReplaced()) OnTimeOfHandOver(clock_->Now());
}

void Primary::OnTimeOfHandOver(absl::Time now) {
  using Step = log::HandOver::Step;
  const Step step = hand_over_.Next(now, MayBeReplaced());
  if (step == Step::kWait) return;
  if (step == Step::kGiveUp || (step == Step::kAskBack && Planted(Bug::kSwapForgotten))) {
    hand_over_.End();
    return MoveOnAll();
  }
  if (step == Step::kAsk) Settle();  // sends its last answers of this epoch
  replicas_.Ask(hand_over_.Wish(step, segment_.id(), epoch_, now));
}

}  // namespace paceline::log
