#include "services/shard/segment/segment_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "services/shard/segment/written_budget.h"

namespace paceline::shard {
namespace {

constexpr uint32_t kRetryAfterMs = 20;
constexpr absl::Duration kWishEvery = absl::Milliseconds(100);
// Between two calls of OnTime; a longer pause was this process's own.
constexpr absl::Duration kStoodStill = absl::Milliseconds(250);
// What no configuration names and no primary sends anything is kept for so long.
constexpr absl::Duration kLeftOverMax = absl::Seconds(10);
// … or so long, if somebody may want to go on from it and memory is not short.
constexpr absl::Duration kNeededMax = absl::Minutes(10);
// Members that say to be primary and are not named. Anybody may say so.
constexpr size_t kUnnamedMax = 16;

}  // namespace

SegmentHost::SegmentHost(SegmentId id, const Surroundings& around, engine::Batch* batch)
    : id_(id), around_(around), budget_(around.budget) {
  if (around_.disk == nullptr) return;
  disk_ = std::make_shared<SegmentDisk>(id_, *batch, *around_.disk, around_.disk_pace, around_.durable);
  budget_ = std::make_shared<WrittenBudget>(around_.budget, disk_, *around_.disk);
}

void SegmentHost::Restore(std::optional<log::Segment> state, SegmentDisk::Found found) {
  disk_->Restore(std::move(found));
  if (!state.has_value()) return;
  const log::LogPosition end{.epoch = state->epoch(), .lsn = state->version()};
  around_.budget->Installed(*state);  // not by way of the disk, which has it
  follower_ = std::make_unique<log::Follower>(*std::move(state), log::LogTail(end), budget_);
  role_ = Role::kLearner;
  restored_ = true;
}

log::Primary::Replication SegmentHost::ReplicationHere() {
  return {.clock = around_.clock,
          .port = around_.port,
          .numbers = &numbers_,
          .durable = around_.durable,
          .disk = disk_ != nullptr,
          .image_pace = around_.image_pace};
}

void SegmentHost::Configure(const ring::SegmentMap& map, const ring::Member& self) {
  if (map.EpochOf(id_) < epoch_ && map.Primary(id_) == self && Planted(Bug::kStaleEpochServed)) {
    MakePrimary({.segment = log::Segment(id_, map.ring_bits()), .tail = log::LogTail(log::LogPosition{})},
                map.ConfigOf(id_));
  }
  OnConfig(map.ConfigOf(id_), map.version(), self, map.ring_bits());
}

void SegmentHost::OnConfig(const ring::SegmentConfig& config, MapVersion version, const ring::Member& self,
                           int ring_bits) {
  map_version_ = std::max(map_version_, version);
  if (config.epoch < Newest()) return;  // a newer one is known of, maybe by a fence
  const bool newer = config.epoch > epoch_;
  const bool first = epoch_ == Epoch();
  epoch_ = config.epoch;
  primary_named_ = config.primary;
  if (config.primary == self) {
    if (!newer) return;
    if (config.emptied_in == config.epoch) return BeginEmpty(config, ring_bits);
    BecomePrimary(
        config, absl::StrCat("segment ", id_.v, " came back to ", around_.shard_name, " in epoch ",
                             config.epoch.v, " without its data; restart the job from its last saved model"));
    if (role_ == Role::kPrimary || tenure_ > 0) return;
    MakePrimary({.segment = log::Segment(id_, ring_bits), .tail = log::LogTail(log::LogPosition{})}, config);
    return;
  }
  const bool replica = std::ranges::count(config.replicas, self) > 0;
  if (role_ == Role::kPrimary) {
    // What it holds may be gone on from, should it be recruited again; OnTime sees to it that it does not
    // stay.
    if (replica || around_.port != nullptr) {
      StepDown(MovedTo(config.primary));
    } else {
      ++events_.given_up;
      (void)primary_->Release(MovedTo(config.primary));
      primary_.reset();
      if (disk_ != nullptr) disk_->Forget();
    }
  }
  replica ? BecomeReplica(config, ring_bits, first) : LeaveOut(config, self);
  AnswerNamed();
}

void SegmentHost::OnCarried(const ring::SegmentConfig& config, MapVersion version, const ring::Member& self,
                            int ring_bits) {
  if (role_ != Role::kPrimary || !primary_->handing_over() || config.epoch != Epoch(epoch_.v + 1)) return;
  const auto known = [&](const ring::Member& member) {
    return member == self || primary_->replicas().HasReplica(member);
  };
  if (!known(config.primary) || !std::ranges::all_of(config.replicas, known)) return;
  OnConfig(config, version, self, ring_bits);
}

void SegmentHost::BecomePrimary(const ring::SegmentConfig& config, const std::string& came_back_without) {
  awaits_.clear();
  if (role_ == Role::kPrimary) return primary_->Begin(config.epoch, config.replicas);
  // In the middle of an image nobody makes it primary, unless what it had before is all there is.
  if (follower_ != nullptr && !follower_->whole()) follower_->FallBack();
  if (follower_ != nullptr && follower_->whole()) {
    log::Follower::State state = follower_->Release();
    follower_.reset();
    ++events_.gained;
    return MakePrimary({.segment = std::move(state.segment), .tail = std::move(state.tail)}, config);
  }
  if (tenure_ > 0 || follower_ != nullptr || fenced_ == config.epoch) {
    // It was here, or said that it was, went, and came back without its rows: an empty one would pass for the
    // real one.
    role_ = Role::kLost;
    lost_message_ = came_back_without;
    ++tenure_;
  }
}

void SegmentHost::MakePrimary(log::Primary::State state, const ring::SegmentConfig& config) {
  role_ = Role::kPrimary;
  restored_ = may_be_needed_ = false;
  ++tenure_;
  awaits_.clear();
  later_ = nullptr;
  if (disk_ != nullptr) disk_->Keep(around_.durable);
  primary_.emplace(std::move(state), config.epoch, config.replicas, budget_, ReplicationHere());
  if (disk_ != nullptr) primary_->OnDisk(disk_->state(), disk_->durable());
}

// Somebody has decided that what it had is lost, so whatever is here is of a history that is over.
void SegmentHost::BeginEmpty(const ring::SegmentConfig& config, int ring_bits) {
  if (primary_.has_value()) (void)primary_->Release(MovedTo(config.primary));
  primary_.reset();
  follower_.reset();
  if (disk_ != nullptr) disk_->Forget();
  emptied_at_ = map_version_;
  MakePrimary({.segment = log::Segment(id_, ring_bits), .tail = log::LogTail(log::LogPosition{})}, config);
  primary_->BeganEmpty();
}

std::string SegmentHost::IsBefore(MapVersion version) const {
  if (version >= emptied_at_) return "";
  return absl::StrCat("segment ", id_.v, ": the call is of map version ", version.v,
                      ", the segment began empty in ", emptied_at_.v);
}

void SegmentHost::StepDown(const v1::Refusal& refusal) {
  ++events_.given_up;
  log::Primary::State state = primary_->Release(refusal);
  primary_.reset();
  follower_ = std::make_unique<log::Follower>(std::move(state.segment), std::move(state.tail), budget_);
  role_ = Role::kLearner;
  left_out_since_ = absl::InfiniteFuture();  // it may be left over from before it was primary
}

void SegmentHost::BecomeReplica(const ring::SegmentConfig& config, int ring_bits, bool first) {
  if (follower_ == nullptr) {
    // A learner knows a configuration before it is recruited. So a member by the first one that this shard
    // hears of, even one after epoch 1, has been one since the segment was empty: nothing was committed
    // without it.
    follower_ = first ? std::make_unique<log::Follower>(log::Follower::Empty(id_, ring_bits, budget_))
                      : std::make_unique<log::Follower>(id_, ring_bits, budget_);
  }
  role_ = Role::kReplica;
  awaits_.clear();
  left_out_since_ = absl::InfiniteFuture();
  watch_.Begin(config.epoch, around_.clock->Now());
}

void SegmentHost::LeaveOut(const ring::SegmentConfig& config, const ring::Member& self) {
  const bool earlier_start = config.primary.shard == self.shard;
  awaits_.clear();
  if (earlier_start && !config.replicas.empty()) awaits_ = "a replica is taking over";
  if (follower_ != nullptr) {
    const bool last_copy = MayBeLastCopy(config, self);
    if (earlier_start && last_copy) awaits_ = "it is being recovered from disk";
    // What disagreed with the only member that is left may be all that is left, should that one end.
    const bool disagreed = role_ == Role::kReplica && last_ack_.state() != v1::ReplicateReply::HOLDS;
    may_be_needed_ = config.replicas.empty() && (disagreed || may_be_needed_);
    if (role_ == Role::kReplica || left_out_since_ == absl::InfiniteFuture()) {
      left_out_since_ = around_.clock->Now();
    }
    if (last_copy) left_out_since_ = absl::InfiniteFuture();
    role_ = Role::kLearner;
    return;
  }
  role_ = earlier_start && config.replicas.empty() ? Role::kLost : Role::kElsewhere;
  if (role_ == Role::kLost) {
    lost_message_ =
        absl::StrCat("segment ", id_.v, " was held in the memory of an earlier start of ", around_.shard_name,
                     " (incarnation ", config.primary.incarnation.v, "; this is ", self.incarnation.v,
                     ") and has no other member: its acknowledged data is gone. Go on without it (`paceline "
                     "recover --accept-loss ",
                     around_.shard_name,
                     "`) and start the job again, from its last saved model if there is "
                     "one");
  }
}

bool SegmentHost::MayBeLastCopy(const ring::SegmentConfig& config, const ring::Member& self) const {
  const auto mine = [&](const ring::Member& member) { return member.shard == self.shard; };
  return restored_ && (mine(config.primary) || std::ranges::any_of(config.replicas, mine));
}

v1::Refusal SegmentHost::MovedTo(const ring::Member& primary) const {
  v1::Refusal moved;
  moved.set_reason(v1::Refusal::MOVED);
  moved.set_map_version(map_version_.v);
  moved.set_message(absl::StrCat("segment ", id_.v, " moved to ", ring::ToString(primary)));
  return moved;
}

std::optional<log::Segment> SegmentHost::Release(const ring::SegmentMap& map) {
  if (role_ != Role::kPrimary || map.EpochOf(id_) <= epoch_) return std::nullopt;
  epoch_ = map.EpochOf(id_);
  primary_named_ = map.Primary(id_);
  map_version_ = std::max(map_version_, map.version());
  role_ = Role::kElsewhere;
  log::Primary::State state = primary_->Release(MovedTo(map.Primary(id_)));
  primary_.reset();
  if (disk_ != nullptr) disk_->Forget();
  return std::move(state.segment);
}

void SegmentHost::Adopt(log::Segment state, const ring::SegmentMap& map) {
  epoch_ = map.EpochOf(id_);
  primary_named_ = map.Primary(id_);
  map_version_ = std::max(map_version_, map.version());
  const log::LogPosition end{.epoch = state.epoch(), .lsn = state.version()};
  MakePrimary({.segment = std::move(state), .tail = log::LogTail(end)}, map.ConfigOf(id_));
}

std::optional<v1::Refusal> SegmentHost::Misrouted(Epoch sender_epoch) const {
  if (role_ == Role::kPrimary) return std::nullopt;
  v1::Refusal refusal;
  refusal.set_segment(id_.v);
  refusal.set_map_version(map_version_.v);
  refusal.set_retry_after_ms(kRetryAfterMs);
  if (sender_epoch > epoch_) {
    refusal.set_reason(v1::Refusal::UNAVAILABLE);
    refusal.set_message(absl::StrCat("segment ", id_.v, ": you know epoch ", sender_epoch.v,
                                     ", this shard only ", epoch_.v, " yet; ask again"));
  } else if (role_ == Role::kLost) {
    refusal.set_reason(v1::Refusal::DATA_LOSS);
    refusal.set_message(lost_message_);
  } else if (!awaits_.empty()) {
    refusal.set_reason(v1::Refusal::UNAVAILABLE);
    refusal.set_message(absl::StrCat("segment ", id_.v, ": an earlier start of ", around_.shard_name,
                                     " was its primary; ", awaits_));
  } else {
    refusal.set_reason(v1::Refusal::MOVED);
    refusal.set_message(
        absl::StrCat("segment ", id_.v, " is not served here; see map version ", map_version_.v));
  }
  return refusal;
}

std::optional<v1::Refusal> SegmentHost::Take(const log::Part& part, Epoch sender_epoch, absl::Time now) {
  if (auto refusal = Misrouted(sender_epoch)) {
    refusal->set_line(static_cast<v1::Line>(part.update.line));
    refusal->set_number(part.update.number);
    return refusal;
  }
  primary_->SetNow(now);
  auto refusal = primary_->Take(part);
  if (refusal.has_value()) {
    refusal->set_line(static_cast<v1::Line>(part.update.line));
    refusal->set_number(part.update.number);
  }
  return refusal;
}

void SegmentHost::Serve(log::Read read, Epoch sender_epoch, absl::Time now) {
  if (auto refusal = Misrouted(sender_epoch)) {
    read.sink->Refused(read.part, *std::move(refusal));
    return;
  }
  primary_->Serve(std::move(read), now);
}

void SegmentHost::Flush() {
  if (role_ == Role::kPrimary) primary_->Flush();
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
  // Of an earlier epoch of that primary: it has not asked anew since.
  if (it == unnamed_.end() || it->second.epoch > epoch_) return;
  const Unnamed named = it->second;
  unnamed_.clear();
  if (named.answer == nullptr) return;
  v1::ReplicateReply::Ack ack;
  ack.set_segment(id_.v);
  ack.set_epoch(named.epoch.v);
  ack.set_transfer(named.transfer);
  ack.set_state(v1::ReplicateReply::NO_STATE);
  if (follower_ != nullptr && follower_->whole()) {
    ack.set_state(v1::ReplicateReply::BEHIND);
    ack.set_lsn(follower_->position().lsn.v);
    ack.set_lsn_epoch(follower_->position().epoch.v);
  }
  named.answer(std::move(ack));
}

std::optional<v1::ReplicateReply::Ack> SegmentHost::Follow(const ring::Member& from,
                                                           const v1::ReplicateRequest::Segment& frame,
                                                           const absl::Cord& body, int ring_bits,
                                                           Answer later) {
  const Epoch epoch(frame.epoch());
  if (IsOver(epoch) || (role_ == Role::kPrimary && epoch == epoch_)) {
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
  restored_ = false;
  watch_.Begin(epoch, around_.clock->Now());
  if (follower_ == nullptr) {
    follower_ = std::make_unique<log::Follower>(id_, ring_bits, budget_);
    role_ = Role::kLearner;
  }
  if (role_ == Role::kLearner) left_out_since_ = around_.clock->Now();
  // What a learner's disk has nobody was told to be acknowledged: one that hangs must not fill the memory.
  // (An awaited one was counted on; it says that it no longer has it, and is not added, or asked out again.)
  if (disk_ != nullptr) disk_->Keep(around_.durable && role_ == Role::kReplica);
  last_ack_ = follower_->Take(frame, body, role_ == Role::kReplica && epoch == epoch_);
  later_ = std::move(later);
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
  if (role_ == Role::kPrimary) return primary_->OnDisk(disk_->state(), disk_->durable());
  if (later_ && last_ack_.state() == v1::ReplicateReply::HOLDS && NoteDisk()) later_(last_ack_);
}

void SegmentHost::OnDurable(const SegmentDisk::Mark& mark) {
  if (disk_->OnDurable(mark)) TellOfDisk();
}

bool SegmentHost::OnBeacon(const ring::Member& from, const v1::Beacon& beacon) {
  const Epoch epoch(beacon.epoch());
  if (follower_ == nullptr || IsOver(epoch) || !IsNamed(from, epoch)) return false;
  const absl::Time now = around_.clock->Now();
  watch_.Begin(epoch, now);
  watch_.Heard(absl::Microseconds(beacon.lease_us()), now);
  if (role_ == Role::kLearner) left_out_since_ = now;
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
  if (role_ != Role::kReplica || !follower_->whole()) {
    reply.set_why_not("it is no replica, or not in sync");
  } else if (epoch <= epoch_ || epoch < fenced_) {
    reply.set_why_not(absl::StrCat("it knows of epoch ", Newest().v));
  } else if (request.only_if_silent() && epoch != fenced_ && !watch_.Silent(around_.clock->Now())) {
    reply.set_why_not("the primary has been heard in time");
  } else {
    if (!Planted(Bug::kFenceSkipped)) fenced_ = epoch;
    reply.set_fenced(true);
    reply.set_lsn(follower_->position().lsn.v);
    reply.set_lsn_epoch(follower_->position().epoch.v);
  }
  return reply;
}

// Nobody who was a member lives. What the disk had is asked for, so that the most advanced of those asked
// goes on.
v1::FenceReply::Segment SegmentHost::JudgeRecovery(const v1::FenceRequest::Segment& request) {
  v1::FenceReply::Segment reply;
  reply.set_segment(id_.v);
  const Epoch epoch(request.epoch());
  if (role_ == Role::kPrimary || role_ == Role::kReplica) {
    reply.set_why_not("it has a role in a newer configuration");
  } else if (epoch <= epoch_ || epoch < fenced_) {
    reply.set_why_not(absl::StrCat("it knows of epoch ", Newest().v));
  } else {
    fenced_ = epoch;
    reply.set_fenced(true);
    const bool has = restored_ ? follower_->whole() : request.left_over() && follower_ != nullptr;
    if (has) {
      const log::LogPosition position = follower_->fallback();
      if (!restored_) left_out_since_ = around_.clock->Now();
      reply.set_lsn(position.lsn.v);
      reply.set_lsn_epoch(position.epoch.v);
    }
  }
  return reply;
}

bool SegmentHost::Recruit(Epoch epoch, const ring::Member& learner) {
  if (role_ != Role::kPrimary || epoch != epoch_ || around_.port == nullptr) return false;
  primary_->Recruit(learner);
  return true;
}

bool SegmentHost::HandOver(Epoch epoch, const ring::Member& to) {
  if (role_ != Role::kPrimary || epoch != epoch_) return false;
  const bool before = primary_->handing_over();
  if (!primary_->HandOver(to)) return false;
  if (!before) ++events_.hand_overs;
  return true;
}

absl::Duration SegmentHost::LeftOverMax() const {
  const bool needed = (may_be_needed_ || follower_->keeps()) && budget_->Admits(log::Follower::kLeftToOthers);
  return needed ? kNeededMax : kLeftOverMax;
}

void SegmentHost::OnTime(absl::Time now) {
  const bool stood_still = now - last_on_time_ > kStoodStill;
  last_on_time_ = now;
  if (role_ == Role::kPrimary) {
    primary_->OnTime(now);
    if (disk_ == nullptr) return;
    disk_->OnTime(primary_->segment(), now);
    TellOfDisk();
    return;
  }
  if (follower_ == nullptr) {
    // Half a state of an earlier start, whose records would keep the old end of the log for ever.
    if (disk_ != nullptr && disk_->HasRemains()) disk_->Forget();
    return;
  }
  if (disk_ != nullptr && follower_->whole()) {
    disk_->OnTime(*follower_->segment(), now);
    TellOfDisk();
  }
  if (stood_still) watch_.ListenAfresh(now);
  if (role_ == Role::kLearner && now > left_out_since_ + LeftOverMax()) {
    follower_.reset();
    if (disk_ != nullptr) disk_->Forget();
    role_ = Role::kElsewhere;
    restored_ = may_be_needed_ = false;
    left_out_since_ = absl::InfiniteFuture();
    return;
  }
  if (role_ != Role::kReplica || !follower_->whole() || !watch_.Silent(now) || now < next_wish_) return;
  next_wish_ = now + kWishEvery;
  v1::ConfigWish wish;
  wish.set_segment(id_.v);
  wish.set_epoch(epoch_.v);
  wish.set_kind(v1::ConfigWish::PROMOTE);
  around_.port->Wish(std::move(wish));
}

}  // namespace paceline::shard
