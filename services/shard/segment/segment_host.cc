#include "services/shard/segment/segment_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "services/shard/segment/written_records.h"

namespace paceline::shard {
namespace {

constexpr uint32_t kRetryAfterMs = 20;
// The map that the sender has is on its way here too, and mostly comes within a round trip.
constexpr uint32_t kKnowsSoonMs = 1;
constexpr absl::Duration kWishEvery = absl::Milliseconds(100);
// Between two calls of OnTime; a longer pause was this process's own.
constexpr absl::Duration kStoodStill = absl::Milliseconds(250);
// A copy that no configuration names and no primary sends to is kept for so long.
constexpr absl::Duration kLeftOverMax = absl::Seconds(10);
// So many members may claim to be primary without being named. Anybody may claim that.
constexpr size_t kUnnamedMax = 16;
// Such a copy is kept for so long if somebody may want to continue from it and memory is not short.
constexpr absl::Duration kNeededMax = absl::Minutes(10);

}  // namespace

SegmentHost::SegmentHost(SegmentId id, const Surroundings& around, engine::Batch* batch)
    : id_(id), around_(around), shard_(around.shard) {
  if (around_.disk == nullptr) return;
  disk_ = std::make_shared<SegmentDisk>(id_, *batch, *around_.disk, around_.disk_pace, around_.durable);
  shard_.records = std::make_shared<WrittenRecords>(around_.shard.records, disk_, *around_.disk);
}

std::string SegmentHost::Awaits() const {
  if (const auto* elsewhere = std::get_if<Elsewhere>(&state_)) return elsewhere->awaits;
  const auto* learner = std::get_if<Learner>(&state_);
  return learner == nullptr ? "" : learner->awaits;
}

std::optional<v1::Refusal> SegmentHost::Misrouted(Epoch sender_epoch) const {
  if (primary() != nullptr) return std::nullopt;
  v1::Refusal refusal;
  refusal.set_segment(id_.v);
  refusal.set_map_version(map_version_.v);
  refusal.set_retry_after_ms(kRetryAfterMs);
  if (sender_epoch > epoch_) {
    refusal.set_reason(v1::Refusal::UNAVAILABLE);
    refusal.set_retry_after_ms(kKnowsSoonMs);
    refusal.set_message(absl::StrCat("segment ", id_.v, ": you know epoch ", sender_epoch.v,
                                     ", this shard only ", epoch_.v, " yet; ask again"));
  } else if (const auto* lost = std::get_if<Lost>(&state_)) {
    refusal.set_reason(v1::Refusal::DATA_LOSS);
    refusal.set_message(lost->message);
  } else if (const std::string awaits = Awaits(); !awaits.empty()) {
    refusal.set_reason(v1::Refusal::UNAVAILABLE);
    refusal.set_message(absl::StrCat("segment ", id_.v, ": an earlier start of ", around_.shard_name,
                                     " was its primary; ", awaits));
  } else {
    refusal.set_reason(v1::Refusal::MOVED);
    refusal.set_message(
        absl::StrCat("segment ", id_.v, " is not served here; see map version ", map_version_.v));
  }
  return refusal;
}

void SegmentHost::Foresee(TableId table, table::KeyView keys, table::LookAhead& ahead) const {
  if (primary() == nullptr) return;
  const log::Segment::Table* found = primary()->segment().FindTable(table);
  if (found != nullptr) found->rows.Foresee(keys, ahead);
}

std::optional<v1::Refusal> SegmentHost::Take(const log::Part& part, Epoch sender_epoch, absl::Time now) {
  if (auto refusal = Misrouted(sender_epoch)) {
    refusal->set_line(static_cast<v1::Line>(part.update.line));
    refusal->set_number(part.update.number);
    return refusal;
  }
  primary()->SetNow(now);
  LoadMeter& load = LoadNow();
  const LoadMeter::Call call = load.Begin();
  auto refusal = primary()->Take(part);
  load.End(call);
  if (refusal.has_value()) {
    refusal->set_line(static_cast<v1::Line>(part.update.line));
    refusal->set_number(part.update.number);
  } else {
    load.Pushed(part.update);
  }
  return refusal;
}

void SegmentHost::Serve(log::Read read, Epoch sender_epoch, absl::Time now) {
  if (auto refusal = Misrouted(sender_epoch)) {
    read.sink->Refused(read.part, *std::move(refusal));
    return;
  }
  LoadMeter& load = LoadNow();
  load.Read(read);
  const LoadMeter::Call call = load.Begin();
  primary()->Serve(std::move(read), now);
  load.End(call);
}

LoadMeter& SegmentHost::LoadNow() {
  if (load() == nullptr) {
    load_ = std::make_unique<LoadMeter>(id_.v, *around_.clock);
    load_tenure_ = tenure_;
  }
  return *load_;
}

std::optional<v1::Refusal> SegmentHost::Subscribe(const log::SetChange& change, Epoch sender_epoch) {
  if (auto refusal = Misrouted(sender_epoch)) return refusal;
  return primary()->Subscribe(change);
}

void SegmentHost::TakeReading(const log::ReadingNote& note, absl::Time now) {
  if (primary() != nullptr) return primary()->TakeReading(note, now);
  note.sink->Told({.segment = note.reading.segment, .beat = note.beat});
}

void SegmentHost::Flush() {
  if (primary() != nullptr) primary()->Flush();
}

// -- other members --

bool SegmentHost::IsOver(Epoch epoch) const {
  return epoch < Newest() && !Planted(Bug::kStaleEpochAccepted);
}

bool SegmentHost::IsNamed(const ring::Member& primary, Epoch epoch) const {
  if (epoch > epoch_) return Planted(Bug::kUnnamedFollowed);
  return primary == primary_named_ || epoch < epoch_;
}

// It asks again from where this member stands, or sends an image.
void SegmentHost::AnswerNamed() {
  const auto it = unnamed_.find(primary_named_);
  // The frame is of an earlier epoch of that primary, which has not asked anew since.
  if (it == unnamed_.end() || it->second.epoch > epoch_) return;
  const Unnamed named = it->second;
  // A member that claims a later epoch may be named next.
  std::erase_if(unnamed_, [this](const auto& entry) { return entry.second.epoch <= epoch_; });
  if (named.answer == nullptr) return;
  v1::ReplicateReply::Ack ack;
  ack.set_segment(id_.v);
  ack.set_epoch(named.epoch.v);
  ack.set_transfer(named.transfer);
  ack.set_state(v1::ReplicateReply::NO_STATE);
  if (follower() != nullptr && follower()->whole()) {
    ack.set_state(v1::ReplicateReply::BEHIND);
    ack.set_lsn(follower()->position().lsn.v);
    ack.set_lsn_epoch(follower()->position().epoch.v);
  }
  named.answer(std::move(ack));
}

std::optional<v1::ReplicateReply::Ack> SegmentHost::Follow(const ring::Member& from,
                                                           const v1::ReplicateRequest::Segment& frame,
                                                           const absl::Cord& body, int ring_bits,
                                                           Answer later) {
  const Epoch epoch(frame.epoch());
  if (IsOver(epoch) || (primary() != nullptr && epoch == epoch_)) {
    v1::ReplicateReply::Ack ack;
    ack.set_segment(id_.v);
    ack.set_epoch(Newest().v);
    ack.set_state(v1::ReplicateReply::FENCED);
    ack.set_transfer(frame.transfer());
    return ack;
  }
  if (!IsNamed(from, epoch)) {
    if (unnamed_.size() >= kUnnamedMax && !unnamed_.contains(from)) unnamed_.clear();
    unnamed_[from] = {.epoch = epoch, .transfer = frame.transfer(), .answer = std::move(later)};
    return std::nullopt;
  }
  if (IsLate(from, frame.transfer())) return std::nullopt;
  watch_.Begin(epoch, around_.clock->Now());
  On(Event::kFrame, {.ring_bits = ring_bits});
  if (auto* learner = std::get_if<Learner>(&state_)) {
    learner->left_out_since = around_.clock->Now();
    learner->taught = true;
  }
  // Nobody was told that parts on a learner's disk are acknowledged: a disk that hangs must not fill the
  // memory.
  const bool counted_on = role() == Role::kReplica || frame.awaited();
  if (disk_ != nullptr) disk_->Keep(around_.durable && counted_on);
  Following& following = *this->following();
  following.restored = false;
  last_ack_ = following.follower->Take(frame, body, counted_on && epoch == epoch_);
  following.later = std::move(later);
  if (disk_ != nullptr) NoteDisk();
  return last_ack_;
}

bool SegmentHost::NoteDisk() {
  const bool news = last_ack_.disk() != disk_->state() || last_ack_.durable() != disk_->durable().v;
  last_ack_.set_disk(disk_->state());
  last_ack_.set_durable(disk_->durable().v);
  return news;
}

void SegmentHost::TellOfDisk() {
  if (primary() != nullptr) return primary()->OnDisk(disk_->state(), disk_->durable());
  const Following* following = this->following();
  if (following == nullptr || !following->later) return;
  if (last_ack_.state() == v1::ReplicateReply::HOLDS && NoteDisk()) following->later(last_ack_);
}

void SegmentHost::OnDurable(const SegmentDisk::Mark& mark) {
  if (disk_->OnDurable(mark)) TellOfDisk();
}

bool SegmentHost::OnBeacon(const ring::Member& from, const v1::Beacon& beacon) {
  const Epoch epoch(beacon.epoch());
  if (follower() == nullptr || IsOver(epoch) || !IsNamed(from, epoch)) return false;
  const absl::Time now = around_.clock->Now();
  watch_.Begin(epoch, now);
  watch_.Heard(absl::Microseconds(beacon.lease_us()), now);
  if (auto* learner = std::get_if<Learner>(&state_)) learner->left_out_since = now;
  return true;
}

v1::Beacon SegmentHost::AnswerTo(const v1::Beacon& beacon) const {
  v1::Beacon answer = beacon;
  if (beacon.no_coordinator_ms() > 0 && around_.port != nullptr) {
    const absl::Duration age = std::min(around_.port->NoCoordinator(), absl::Hours(1));
    answer.set_coordinator_age_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(age)) + 1);
  }
  return answer;
}

// -- the coordinator --

v1::FenceReply::Segment SegmentHost::Fence(const v1::FenceRequest::Segment& request) {
  v1::FenceReply::Segment reply = request.restored() ? JudgeRecovery(request) : JudgeFence(request);
  ++(reply.fenced() ? events_.fenced : events_.not_fenced);
  return reply;
}

v1::FenceReply::Segment SegmentHost::JudgeFence(const v1::FenceRequest::Segment& request) {
  v1::FenceReply::Segment reply;
  reply.set_segment(id_.v);
  const Epoch epoch(request.epoch());
  if (role() != Role::kReplica || !follower()->whole()) {
    reply.set_why_not("it is no replica, or not in sync");
  } else if (epoch <= epoch_ || epoch < fenced_) {
    reply.set_why_not(absl::StrCat("it knows of epoch ", Newest().v));
  } else if (request.only_if_silent() && epoch != fenced_ && !watch_.Silent(around_.clock->Now())) {
    reply.set_why_not("the primary has been heard in time");
  } else {
    if (!Planted(Bug::kFenceSkipped)) Promise(epoch);
    reply.set_fenced(true);
    reply.set_lsn(follower()->position().lsn.v);
    reply.set_lsn_epoch(follower()->position().epoch.v);
  }
  return reply;
}

// No member lives. The coordinator asks for the disks' copies, so that the most advanced one goes on.
v1::FenceReply::Segment SegmentHost::JudgeRecovery(const v1::FenceRequest::Segment& request) {
  v1::FenceReply::Segment reply;
  reply.set_segment(id_.v);
  const Epoch epoch(request.epoch());
  if (role() == Role::kPrimary || role() == Role::kReplica) {
    reply.set_why_not("it has a role in a newer configuration");
  } else if (epoch <= epoch_ || epoch < fenced_) {
    reply.set_why_not(absl::StrCat("it knows of epoch ", Newest().v));
  } else {
    Promise(epoch);
    reply.set_fenced(true);
    auto* learner = std::get_if<Learner>(&state_);
    if (learner != nullptr && (learner->following.restored || request.left_over())) {
      const log::LogPosition position = follower()->fallback();
      if (!learner->following.restored) learner->left_out_since = around_.clock->Now();
      reply.set_lsn(position.lsn.v);
      reply.set_lsn_epoch(position.epoch.v);
    }
  }
  return reply;
}

bool SegmentHost::Recruit(Epoch epoch, const ring::Member& learner) {
  if (primary() == nullptr || epoch != epoch_ || around_.port == nullptr) return false;
  primary()->Recruit(learner);
  return true;
}

bool SegmentHost::HandOver(Epoch epoch, const ring::Member& to) {
  if (primary() == nullptr || epoch != epoch_) return false;
  const bool before = primary()->handing_over();
  if (!primary()->HandOver(to)) return false;
  if (!before) ++events_.hand_overs;
  return true;
}

void SegmentHost::Promise(Epoch epoch) {
  fenced_ = epoch;
  fenced_at_ = around_.clock->Now();
}

bool SegmentHost::MayBeMember() const {
  const auto* learner = std::get_if<Learner>(&state_);
  const absl::Time now = around_.clock->Now();
  const bool promised = fenced_ > epoch_ && now - fenced_at_ < kLeftOverMax;
  const bool taught = learner != nullptr && learner->taught && now - learner->left_out_since < kLeftOverMax;
  return role() == Role::kPrimary || role() == Role::kReplica || promised || taught;
}

absl::Duration SegmentHost::LeftOverMax(const Following& following) const {
  const bool needed = following.may_be_needed || following.follower->keeps();
  return needed && shard_.memory->Admits(log::Follower::kLeftToOthers) ? kNeededMax : kLeftOverMax;
}

log::NextVisit SegmentHost::OnTime(absl::Time now) {
  const bool stood_still = now - last_on_time_ > kStoodStill;
  last_on_time_ = now;
  log::NextVisit visit = primary() != nullptr ? primary()->OnTime(now) : log::NextVisit::kAtBeat;
  if (disk_ != nullptr && (primary() != nullptr || (follower() != nullptr && follower()->whole()))) {
    visit = std::max(visit, disk_->OnTime(*state(), now));
    TellOfDisk();
  }
  if (primary() != nullptr) return visit;
  if (follower() == nullptr) {
    // Half a state of an earlier start, whose records would keep the old end of the log for ever.
    if (disk_ != nullptr && disk_->HasRemains()) disk_->Forget();
    return log::NextVisit::kNever;
  }
  if (stood_still) watch_.ListenAfresh(now);
  if (const auto* learner = std::get_if<Learner>(&state_)) {
    if (now > learner->left_out_since + LeftOverMax(learner->following)) On(Event::kOutstayed, {});
  } else if (auto* replica = std::get_if<Replica>(&state_)) {
    WishToTakeOver(*replica, now);
    // A shard that is late at each visit would never notice silence.
    if (stood_still || watch_.Silent(log::NextBeat(now))) return log::NextVisit::kSoon;
  }
  return visit;
}

void SegmentHost::WishToTakeOver(Replica& replica, absl::Time now) {
  if (!replica.following.follower->whole() || !watch_.Silent(now) || now < replica.next_wish) return;
  replica.next_wish = now + kWishEvery;
  v1::ConfigWish wish;
  wish.set_segment(id_.v);
  wish.set_epoch(epoch_.v);
  wish.set_kind(v1::ConfigWish::PROMOTE);
  around_.port->Wish(std::move(wish));
}

}  // namespace paceline::shard
