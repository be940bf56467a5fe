// What happens to a cluster.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/wire/map_codec.h"
#include "tests/sim/cluster.h"

namespace paceline::sim {

void Cluster::Strike(FaultKind kind) {
  // Towards the end there is less and less to strike.
  if (WorkersDone() || !TryStrike(kind)) return;
  faults_[NameOf(kind)] += 1;
  world_.Trace(absl::StrCat("fault ", NameOf(kind)));
  last_fault_ = std::max(last_fault_, world_.Now());
}

bool Cluster::TryStrike(FaultKind kind) {
  switch (kind) {
    case FaultKind::kBreak:
      return Break(/*by_server=*/false);
    case FaultKind::kServerClose:
      return Break(/*by_server=*/true);
    case FaultKind::kClog:
      return Clog();
    case FaultKind::kShardPause:
      return PauseShard();
    case FaultKind::kCoordinatorKill:
      return KillCoordinator();
    case FaultKind::kCoordinatorPause:
      return PauseCoordinator();
    case FaultKind::kStoreFails:
      return FailStore();
    case FaultKind::kClientKill:
      return KillClient();
    case FaultKind::kClientPause:
      return PauseClient();
    case FaultKind::kMove:
      return Move();
    case FaultKind::kCalls:
      return SpoilCalls();
  }
  return false;
}

bool Cluster::Break(bool by_server) {
  std::vector<std::shared_ptr<Connection>> busy;
  for (const auto& connection : world_.network.connections()) {
    if (connection->established() && connection->under_way() > 0) busy.push_back(connection);
  }
  if (busy.empty()) return false;
  const auto& connection = busy[world_.Below(busy.size())];
  if (by_server) {
    connection->CloseByServer(absl::UnavailableError("the server ends the stream"));
    return true;
  }
  if (connection->Break(absl::UnavailableError("connection reset")) > 0)
    world_.marks.Hit("a break loses frames");
  return true;
}

bool Cluster::Clog() {
  const uint64_t drawn = world_.Below(shards_.size() + workers_.size());
  Host& host = drawn < shards_.size() ? shards_[drawn]->host() : workers_[drawn - shards_.size()]->host();
  host.clogged_until = world_.Now() + world_.Between(absl::Milliseconds(20), absl::Milliseconds(500));
  host.clog = world_.Between(absl::Milliseconds(5), absl::Milliseconds(200));
  last_fault_ = std::max(last_fault_, host.clogged_until);
  return true;
}

bool Cluster::PauseShard() {
  Host& host = shards_[world_.Below(shards_.size())]->host();
  if (host.Paused(world_.Now())) return false;
  host.paused_until = world_.Now() + world_.Between(absl::Milliseconds(10), absl::Milliseconds(800));
  last_fault_ = std::max(last_fault_, host.paused_until);
  return true;
}

bool Cluster::KillCoordinator() {
  if (coordinator_.core() == nullptr) return false;
  coordinator_.Kill();
  const absl::Duration down = world_.Between(absl::Milliseconds(1), absl::Milliseconds(900));
  world_.scheduler.After(down, [this] { coordinator_.Start(); });
  last_fault_ = std::max(last_fault_, world_.Now() + down);
  return true;
}

bool Cluster::PauseCoordinator() {
  Host& host = coordinator_.host();
  if (host.Paused(world_.Now()) || coordinator_.core() == nullptr) return false;
  host.paused_until = world_.Now() + world_.Between(absl::Milliseconds(100), absl::Seconds(3));
  last_fault_ = std::max(last_fault_, host.paused_until);
  return true;
}

bool Cluster::FailStore() {
  FailingStore* store = coordinator_.store();
  if (store == nullptr) return false;
  store->next = world_.Chance(0.5) ? FailingStore::Failure::kBefore : FailingStore::Failure::kAfter;
  // Something that has to be committed, soon.
  return KillClient();
}

Worker* Cluster::AnyWorkerUp() {
  std::vector<Worker*> up;
  for (const auto& worker : workers_) {
    if (worker->up()) up.push_back(worker.get());
  }
  return up.empty() ? nullptr : up[world_.Below(up.size())];
}

bool Cluster::KillClient() {
  SimClient* client = AnyWorkerUp();
  if (world_.Chance(0.2)) client = readers_[world_.Below(readers_.size())].get();
  if (client == nullptr || !client->up()) return false;
  client->Kill();
  return true;
}

bool Cluster::PauseClient() {
  Worker* worker = AnyWorkerUp();
  if (worker == nullptr) return false;
  const absl::Duration pause = world_.Between(absl::Milliseconds(20), absl::Seconds(3));
  worker->Pause(pause);
  last_fault_ = std::max(last_fault_, world_.Now() + pause);
  return true;
}

// The map is committed and the state follows in the same step.
bool Cluster::Move() {
  coordinator::CoordinatorCore* core = coordinator_.core();
  if (core == nullptr || coordinator_.host().Paused(world_.Now())) return false;
  if (coordinator_.store()->next != FailingStore::Failure::kNone) return false;
  const SegmentId segment(static_cast<uint32_t>(world_.Below(uint64_t{1} << plan_.ring_bits)));
  SimShard* from = nullptr;
  for (const auto& shard : shards_) {
    shard->ForEachPrimary([&](log::Primary& primary) {
      if (primary.segment().id() == segment) from = shard.get();
    });
  }
  SimShard& to = *shards_[world_.Below(shards_.size())];
  const bool known = to.self().incarnation != Incarnation() && to.shard().view()->map != nullptr;
  if (from == nullptr || from == &to || !known) return false;
  const uint64_t before = core->gauges().map_version;
  absl::StatusOr<v1::Map> moved = absl::UnavailableError("down");
  coordinator_.Visit([&](auto& up) { moved = up.MoveSegment(segment.v, to.self().shard.v); });
  if (!moved.ok() || moved->version() == before) return false;
  auto map = std::make_shared<const ring::SegmentMap>(*wire::MapFromProto(*moved));
  from->shard().ReleaseSegment(segment, map, [&](std::optional<log::Segment> state) {
    if (!state.has_value()) return world_.verdict.Violated("OnePrimary", "a segment is not released");
    to.shard().AdoptSegment(*std::move(state), map, [] {});
  });
  to.ForEachPrimary([&](log::Primary& primary) {
    if (primary.segment().id() == segment) world_.invariants.OnAdopted(primary.segment(), primary.epoch());
  });
  NoOverlap();
  world_.Trace(absl::StrCat("segment ", segment.v, " moves from ", from->host().name, " to ", to.host().name,
                            " in map ", map->version().v));
  return true;
}

bool Cluster::SpoilCalls() {
  CallFaults& faults = world_.calls.faults;
  if (faults.lost > 0) return false;
  faults = {.lost = 0.1, .reply_lost = 0.1, .doubled = 0.3, .late = 0.1};
  const absl::Duration lasts = world_.Between(absl::Milliseconds(100), absl::Milliseconds(1500));
  world_.scheduler.After(lasts, [&faults] { faults = {}; });
  last_fault_ = std::max(last_fault_, world_.Now() + lasts + faults.late_by);
  return true;
}

}  // namespace paceline::sim
