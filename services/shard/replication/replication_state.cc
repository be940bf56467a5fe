#include "services/shard/replication/replication_state.h"

#include <algorithm>

namespace paceline::shard {

ReplicationState& ReplicationState::operator+=(const ReplicationState& other) {
  primaries += other.primaries;
  replicas += other.replicas;
  learners += other.learners;
  lost += other.lost;
  not_answering += other.not_answering;
  learners_taught += other.learners_taught;
  unreplicated_records += other.unreplicated_records;
  unreplicated_bytes += other.unreplicated_bytes;
  pending_acks += other.pending_acks;
  lease = std::max(lease, other.lease);
  log_bytes += other.log_bytes;
  events.gained += other.events.gained;
  events.given_up += other.events.given_up;
  events.hand_overs += other.events.hand_overs;
  events.fenced += other.events.fenced;
  events.not_fenced += other.events.not_fenced;
  disk_log_bytes += other.disk_log_bytes;
  disk_bases += other.disk_bases;
  disk_incomplete += other.disk_incomplete;
  disk_stalled += other.disk_stalled;
  return *this;
}

ReplicationState ReplicationOf(const SegmentHost& host) {
  ReplicationState state;
  state.events = host.events();
  switch (host.role()) {
    case SegmentHost::Role::kPrimary:
      state.primaries = 1;
      break;
    case SegmentHost::Role::kReplica:
      state.replicas = 1;
      break;
    case SegmentHost::Role::kLearner:
      state.learners = 1;
      break;
    case SegmentHost::Role::kLost:
      state.lost = 1;
      break;
    case SegmentHost::Role::kElsewhere:
      break;
  }
  if (const SegmentDisk* disk = host.disk()) {
    state.disk_log_bytes = disk->log_bytes();
    state.disk_bases = disk->bases();
    const bool held = host.primary() != nullptr || host.follower() != nullptr;
    state.disk_incomplete = held && !disk->ready() ? 1 : 0;
    state.disk_stalled = held && disk->state() == v1::ReplicateReply::DISK_STALLS ? 1 : 0;
  }
  if (const log::Follower* follower = host.follower()) state.log_bytes = follower->tail().bytes();
  const log::Primary* primary = host.primary();
  if (primary == nullptr) return state;
  const log::Replicas& replicas = primary->replicas();
  state.not_answering = primary->MayAnswer() ? 0 : 1;
  state.learners_taught = replicas.learners();
  state.unreplicated_records = replicas.uncommitted();
  state.unreplicated_bytes = replicas.tail().BytesAfter(replicas.committed());
  state.pending_acks = primary->pending_acks();
  state.lease = replicas.lease();
  state.log_bytes = replicas.tail().bytes();
  return state;
}

}  // namespace paceline::shard
