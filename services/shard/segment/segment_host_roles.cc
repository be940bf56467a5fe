// The events of a segment at one shard, and the actions that segment_role.h names for them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "services/shard/segment/segment_host.h"

namespace paceline::shard {

// -- events --

void SegmentHost::Restore(std::optional<log::Segment> state, SegmentDisk::Found found) {
  disk_->Restore(std::move(found));
  if (state.has_value()) On(Event::kRestored, {.state = &*state});
}

void SegmentHost::Configure(const ring::SegmentMap& map, const ring::Member& self) {
  const ring::SegmentConfig config = map.ConfigOf(id_);
  if (config.epoch < epoch_ && config.primary == self && Planted(Bug::kStaleEpochServed)) {
    On(Event::kEmptied, {.config = &config, .self = self, .ring_bits = map.ring_bits()});
  }
  OnConfig(config, map.version(), self, map.ring_bits());
}

void SegmentHost::OnConfig(const ring::SegmentConfig& config, MapVersion version, const ring::Member& self,
                           int ring_bits) {
  // Within an epoch the mark of a loss comes and goes.
  if (config.epoch == epoch_ && version < map_version_) return;
  map_version_ = std::max(map_version_, version);
  if (config.epoch < Newest()) {  // a newer one is known, maybe by a fence
    // A recovery fences first, and then finds that nothing is left, or that another folder turned up.
    if (config.epoch == epoch_ && state() == nullptr && config.primary != self) {
      TellWhetherLost(config, {.config = &config, .self = self, .ring_bits = ring_bits});
    }
    return;
  }
  const bool newer = config.epoch > epoch_;
  const bool first = epoch_ == Epoch() && !knew_maps_;
  epoch_ = config.epoch;
  primary_named_ = config.primary;
  const Cause cause{.config = &config, .self = self, .ring_bits = ring_bits};
  if (config.primary == self) {
    if (newer) On(config.emptied_in == config.epoch ? Event::kEmptied : Event::kNamedPrimary, cause);
    return;
  }
  if (std::ranges::count(config.replicas, self) > 0) {
    // A learner knows a configuration before it is recruited. So a member by the first one that this shard
    // hears of, even one after epoch 1, has been one since the segment was empty: nothing was committed
    // without it.
    On(first ? Event::kNamedFirstReplica : Event::kNamedReplica, cause);
    if (newer) LinkWithMembers(config, self);
  } else {
    if (newer && config.replicas.empty() && following() != nullptr && following()->restored &&
        follower()->whole() && Planted(Bug::kOldCopyServed)) {
      return On(Event::kNamedPrimary, cause);
    }
    TellWhetherLost(config, cause);
  }
  AnswerNamed();
}

// A replica may be primary next, and answers nobody then until the others have lent it their time.
void SegmentHost::LinkWithMembers(const ring::SegmentConfig& config, const ring::Member& self) const {
  if (around_.port == nullptr) return;
  const auto link = [&](const ring::Member& member) {
    if (member != self) around_.port->Link(member);
  };
  link(config.primary);
  std::ranges::for_each(config.replicas, link);
}

// Clients ask the shard of the primary that the map names.
void SegmentHost::TellWhetherLost(const ring::SegmentConfig& config, const Cause& cause) {
  const bool lost = config.primary.shard == cause.self.shard && (config.lost || config.replicas.empty());
  On(lost ? Event::kLeftToEarlierStarts : Event::kLeftOut, cause);
}

void SegmentHost::OnCarried(const ring::SegmentConfig& config, MapVersion version, const ring::Member& self,
                            int ring_bits) {
  if (primary() == nullptr || !primary()->handing_over() || config.epoch != Epoch(epoch_.v + 1)) return;
  const auto known = [&](const ring::Member& member) {
    return member == self || primary()->replicas().HasReplica(member);
  };
  if (!known(config.primary) || !std::ranges::all_of(config.replicas, known)) return;
  OnConfig(config, version, self, ring_bits);
}

// -- actions --

void SegmentHost::On(Event event, const Cause& cause) {
  const Step step = Next(StandingNow(), event);
  for (const Action action : step.actions) Do(action, cause);
}

Standing SegmentHost::StandingNow() const {
  if (primary() != nullptr) return {Role::kPrimary, Holds::kWhole};
  if (const log::Follower* follower = this->follower()) {
    return {role(), follower->whole() || follower->keeps() ? Holds::kWhole : Holds::kPart};
  }
  return {role(), tenure_ > 0 || fenced_ == epoch_ ? Holds::kNoMore : Holds::kNothing};
}

void SegmentHost::Do(Action action, const Cause& cause) {
  switch (action) {
    case Action::kRestore:
      return FollowRestored(std::move(*cause.state));
    case Action::kBeginFirst:
      return MakePrimary(Nothing(cause.ring_bits), *cause.config);
    case Action::kBeginEmpty:
      return BeginEmpty(*cause.config, cause.ring_bits);
    case Action::kBeginEpoch:
      return primary()->Begin(cause.config->epoch, cause.config->replicas);
    case Action::kTakeOver:
      return TakeOver(*cause.config);
    case Action::kStepDown:
      return StepDown();
    case Action::kFollow:
      return BeginToFollow(log::Follower(id_, cause.ring_bits, shard_));
    case Action::kFollowEmpty:
      return BeginToFollow(log::Follower::Empty(id_, cause.ring_bits, shard_));
    case Action::kCount:
      return Count();
    case Action::kLeaveOut:
      return LeaveOut(*cause.config, cause.self);
    case Action::kDrop:
      return Drop();
    case Action::kPointAway:
      state_.emplace<Elsewhere>(Elsewhere{.awaits = WhoTakesOver(*cause.config, cause.self)});
      return;
    case Action::kTellLostHere:
      return TellLostHere();
    case Action::kTellLostBefore:
      return TellLostBefore(cause.self);
  }
}

log::Primary::State SegmentHost::Nothing(int ring_bits) const {
  return {.segment = log::Segment(id_, ring_bits), .tail = log::LogTail(log::LogPosition{})};
}

void SegmentHost::MakePrimary(log::Primary::State state, const ring::SegmentConfig& config) {
  ++tenure_;
  if (disk_ != nullptr) disk_->Keep(around_.durable);
  const log::Primary::Replication replication{.clock = around_.clock,
                                              .port = around_.port,
                                              .numbers = &numbers_,
                                              .durable = around_.durable,
                                              .disk = disk_ != nullptr,
                                              .image_pace = around_.image_pace};
  state_.emplace<log::Primary>(std::move(state), config.epoch, config.replicas, shard_, replication);
  if (disk_ != nullptr) primary()->OnDisk(disk_->state(), disk_->durable());
  if (config.emptied_in == Epoch()) return;
  primary()->BeganEmpty(Planted(Bug::kFloorForgotten) ? 0 : config.change_floor);
}

// All data here belongs to a history that is over.
void SegmentHost::BeginEmpty(const ring::SegmentConfig& config, int ring_bits) {
  if (primary() != nullptr) (void)primary()->Release(Moved());
  state_.emplace<Elsewhere>();
  if (disk_ != nullptr) disk_->Forget();
  MakePrimary(Nothing(ring_bits), config);
}

void SegmentHost::TakeOver(const ring::SegmentConfig& config) {
  std::unique_ptr<log::Follower> follower = std::move(following()->follower);
  // In the middle of an image it never becomes primary, unless its earlier copy is all there is.
  if (!follower->whole()) follower->FallBack();
  log::Follower::State state = follower->Release();
  follower.reset();
  ++events_.gained;
  MakePrimary({.segment = std::move(state.segment), .tail = std::move(state.tail)}, config);
}

// Another member continues from its copy, or finds that it cannot. OnTime ends that state.
void SegmentHost::StepDown() {
  ++events_.given_up;
  log::Primary::State state = primary()->Release(Moved());
  Learner& learner = state_.emplace<Learner>();
  learner.following.follower =
      std::make_unique<log::Follower>(std::move(state.segment), std::move(state.tail), shard_);
}

void SegmentHost::FollowRestored(log::Segment state) {
  const log::LogPosition end{.epoch = state.epoch(), .lsn = state.version()};
  around_.shard.records->Installed(state);  // not by way of the disk, which has it
  BeginToFollow(log::Follower(std::move(state), log::LogTail(end), shard_));
  following()->restored = true;
}

void SegmentHost::BeginToFollow(log::Follower follower) {
  Learner learner;
  if (const auto* elsewhere = std::get_if<Elsewhere>(&state_)) learner.awaits = elsewhere->awaits;
  learner.following.follower = std::make_unique<log::Follower>(std::move(follower));
  state_.emplace<Learner>(std::move(learner));
}

void SegmentHost::Count() {
  if (role() != Role::kReplica) state_.emplace<Replica>(Replica{.following = TakeFollowing()});
  watch_.Begin(epoch_, around_.clock->Now());
}

void SegmentHost::LeaveOut(const ring::SegmentConfig& config, const ring::Member& self) {
  // This copy disagreed with the only member that is left. If that one ends it may be the last.
  const bool disagreed = role() == Role::kReplica && last_ack_.state() != v1::ReplicateReply::HOLDS;
  if (role() != Role::kLearner) state_.emplace<Learner>(Learner{.following = TakeFollowing()});
  Learner& learner = std::get<Learner>(state_);
  Following& following = learner.following;
  following.may_be_needed = config.replicas.empty() && (disagreed || following.may_be_needed);
  const auto mine = [&](const ring::Member& member) { return member.shard == self.shard; };
  // The copy that an earlier start left on the disk may be the only one.
  const bool last_copy =
      following.restored && (mine(config.primary) || std::ranges::any_of(config.replicas, mine));
  learner.awaits = WhoTakesOver(config, self);
  if (mine(config.primary) && last_copy) learner.awaits = "it is being recovered from disk";
  if (learner.left_out_since == absl::InfiniteFuture()) learner.left_out_since = around_.clock->Now();
  if (last_copy) learner.left_out_since = absl::InfiniteFuture();
}

void SegmentHost::Drop() {
  state_.emplace<Elsewhere>(Elsewhere{.awaits = std::move(std::get<Learner>(state_).awaits)});
  if (disk_ != nullptr) disk_->Forget();
}

void SegmentHost::TellLostHere() {
  ++tenure_;
  Lost lost{.message = absl::StrCat("segment ", id_.v, " came back to ", around_.shard_name, " in epoch ",
                                    epoch_.v, " without its data; restart the job from its last saved model"),
            .following = TakeFollowing()};
  state_.emplace<Lost>(std::move(lost));
}

void SegmentHost::TellLostBefore(const ring::Member& self) {
  state_.emplace<Lost>(
      Lost{.message = absl::StrCat(
               "segment ", id_.v, " was held by an earlier start of ", around_.shard_name, " (incarnation ",
               primary_named_.incarnation.v, "; this is ", self.incarnation.v,
               "), and no other member is left that has it: its acknowledged data is gone. Go on without it "
               "(`paceline recover --accept-loss ",
               around_.shard_name, "`) and start the job again, from its last saved model if there is one")});
}

std::string SegmentHost::WhoTakesOver(const ring::SegmentConfig& config, const ring::Member& self) {
  return config.primary.shard == self.shard && !config.replicas.empty() ? "a replica is taking over" : "";
}

SegmentHost::Following SegmentHost::TakeFollowing() {
  Following* following = this->following();
  return following == nullptr ? Following{} : std::move(*following);
}

v1::Refusal SegmentHost::Moved() const {
  v1::Refusal moved;
  moved.set_reason(v1::Refusal::MOVED);
  moved.set_map_version(map_version_.v);
  moved.set_message(absl::StrCat("segment ", id_.v, " moved to ", ring::ToString(primary_named_)));
  return moved;
}

}  // namespace paceline::shard
