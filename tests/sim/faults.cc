// The faults of a cluster.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/log/lease.h"
#include "libs/wire/map_codec.h"
#include "tests/sim/cluster.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kSlewEvery = absl::Milliseconds(150);

}  // namespace

void Cluster::Strike(FaultKind kind) {
  // Towards the end there is less and less to strike.
  if (!WorkersDone() && TryStrike(kind)) Count(kind);
}

void Cluster::Count(FaultKind kind) {
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
      return elastic_.Move();
    case FaultKind::kCalls:
      return SpoilCalls();
    case FaultKind::kShardKill:
      return KillShard();
    case FaultKind::kPartition:
    case FaultKind::kOneWay:
      return CutShards(kind), false;
    case FaultKind::kCoordinatorCut:
    case FaultKind::kToCoordinator:
    case FaultKind::kFromCoordinator:
      return CutCoordinator(kind), false;
    case FaultKind::kClientsCut:
      return CutClients(), false;
    case FaultKind::kHandOver:
      return HandOver();
    case FaultKind::kShardTerm:
      return TerminateShard();
    case FaultKind::kCoordinatorTerm:
      return TerminateCoordinator();
    case FaultKind::kSwapUnanswered:
      return LoseNextSwap(), false;
    case FaultKind::kDiskDamaged:
      return DamageDisk();
    case FaultKind::kMembersKill:
      return KillMembers();
    case FaultKind::kAllKill:
      return KillAll();
    case FaultKind::kDiskForgets:
      return ForgetfulDisk(), false;
    case FaultKind::kDiskFull:
    case FaultKind::kDiskFails:
    case FaultKind::kSyncFails:
    case FaultKind::kDiskSlow:
      return StrikeDisk(kind), false;
    case FaultKind::kDiskAged:
      return AgeDisk();
    case FaultKind::kStoreAged:
      return AgeStore();
    case FaultKind::kAddLate:
      return ++adds_to_repeat_, false;
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
  // A machine that was suspended: its clock has gone on.
  if (world_.Chance(0.3)) host.paused_until += world_.Between(absl::Seconds(1), absl::Seconds(3));
  last_fault_ = std::max(last_fault_, host.paused_until);
  return true;
}

bool Cluster::KillCoordinator() {
  if (coordinator_.core() == nullptr || coordinator_.aged()) return false;
  coordinator_.Kill();
  StartCoordinatorLater();
  return true;
}

void Cluster::StartCoordinatorLater() {
  const absl::Duration down = world_.Between(absl::Milliseconds(1), absl::Milliseconds(900));
  world_.scheduler.After(down, [this] { coordinator_.Start(); });
  last_fault_ = std::max(last_fault_, world_.Now() + down);
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

// Each of its segments has another member that lives and that is not about to be left out; and its
// primary lives: while another member takes over, who answers the fence in time may be alone in the next
// epoch. So may this one, where a primary that lives is silent.
bool Cluster::CanDoWithout(const SimShard& shard) {
  if (shard.self().incarnation == Incarnation()) return false;
  if (shard.MayBeDropping() || shard.MayBeTakingOver()) return false;
  const auto start_of = [&](const v1::Member& member) -> const SimShard* {
    const auto it = std::find_if(shards_.begin(), shards_.end(), [&](const auto& other) {
      return other->self() == wire::MemberFromProto(member) && other->up();
    });
    return it == shards_.end() ? nullptr : it->get();  // null: this start is over
  };
  const auto is_it = [&](const v1::Member& member) { return ShardId(member.shard()) == shard.self().shard; };
  const v1::Map& map = coordinator_.map();
  for (const v1::SegmentConfig& config : map.segments()) {
    std::vector<v1::Member> members(config.replicas().begin(), config.replicas().end());
    members.push_back(config.primary());
    if (std::none_of(members.begin(), members.end(), is_it)) continue;
    const bool others = std::any_of(members.begin(), members.end(), [&](const v1::Member& member) {
      const SimShard* start = is_it(member) ? nullptr : start_of(member);
      return start != nullptr && !start->MayBeDropping();
    });
    if (!others || (!is_it(config.primary()) && start_of(config.primary()) == nullptr)) return false;
  }
  return map.segments_size() > 0;
}

bool Cluster::KillShard() {
  SimShard* shard = shards_[world_.Below(shards_.size())].get();
  if (!shard->up()) return false;
  if (!plan_.durable && (plan_.replicas == 0 || !CanDoWithout(*shard))) return false;
  return Kill({shard}, PowerGoes());
}

bool Cluster::TerminateShard() {
  SimShard* shard = shards_[world_.Below(shards_.size())].get();
  // Of those that are to leave at once none would take what the others have.
  const bool other = std::ranges::any_of(shards_, [](const auto& one) { return one->leaving(); });
  if (!shard->up() || (other && !plan_.durable)) return false;
  world_.Trace(absl::StrCat(shard->host().name, " is told to end"));
  shard->Terminate([this, shard] {
    if (!plan_.durable && !CanDoWithout(*shard)) return false;
    last_fault_ = std::max(last_fault_, world_.Now());
    return true;
  });
  return true;
}

bool Cluster::TerminateCoordinator() {
  if (coordinator_.core() == nullptr || coordinator_.aged() || coordinator_.host().Paused(world_.Now()))
    return false;
  coordinator_.Terminate();
  StartCoordinatorLater();
  return true;
}

// Any two differ by no more than nine tenths of what leases allow for.
void Cluster::Slew() {
  const double most = (plan_.slews ? 0.45 : 0.05) * log::kDrift;
  const auto draw = [this, most] { return 1 + most * (2 * world::UnitInterval(world_.random) - 1); };
  for (const auto& shard : shards_) shard->clock().Slew(world_.Chance(0.3) ? 1 + most : draw());
  coordinator_.clock().Slew(draw());
  if (plan_.slews) world_.scheduler.After(kSlewEvery, [this] { Slew(); });
}

bool Cluster::PowerGoes() {
  return plan_.disks && world_.Chance(0.5);
}

bool Cluster::Kill(const std::vector<SimShard*>& shards, bool power) {
  bool any = false;
  for (SimShard* shard : shards) {
    if (!shard->up()) continue;
    any = true;
    world_.Trace(absl::StrCat(shard->host().name, " is killed", power ? ", without power" : ""));
    if (shard->Kill(power) > 0) Count(FaultKind::kDiskForgets);
    const absl::Duration down = world_.Between(absl::Milliseconds(5), absl::Seconds(2));
    world_.scheduler.After(down, [shard] { shard->Start(); });
    last_fault_ = std::max(last_fault_, world_.Now() + down);
  }
  return any;
}

bool Cluster::KillMembers() {
  const v1::Map& map = coordinator_.map();
  if (map.segments_size() == 0) return false;
  const v1::SegmentConfig& config =
      map.segments(static_cast<int>(world_.Below(static_cast<uint64_t>(map.segments_size()))));
  std::vector<SimShard*> members;
  const auto add = [&](const v1::Member& member) {
    for (const auto& shard : shards_) {
      if (shard->self().shard == ShardId(member.shard())) members.push_back(shard.get());
    }
  };
  add(config.primary());
  for (const v1::Member& replica : config.replicas()) add(replica);
  return Kill(members, PowerGoes());
}

bool Cluster::KillAll() {
  std::vector<SimShard*> all;
  for (const auto& shard : shards_) all.push_back(shard.get());
  const bool any = Kill(all, PowerGoes());
  return KillCoordinator() || any;
}

void Cluster::CutShards(FaultKind kind) {
  const uint64_t a = world_.Below(shards_.size());
  const uint64_t b = world_.Below(shards_.size());
  if (a == b) return;
  std::vector<Partitions::Way> ways = Partitions::Both(shards_[a]->host().name, shards_[b]->host().name);
  if (kind == FaultKind::kOneWay) ways.pop_back();
  Cut(kind, ways, world_.Between(absl::Milliseconds(50), absl::Seconds(2)));
}

// One shard, or several at once: then all who could take over are as badly off.
void Cluster::CutCoordinator(FaultKind kind) {
  const std::string& coordinator = coordinator_.host().name;
  const uint64_t first = world_.Below(shards_.size());
  const uint64_t count = world_.Chance(0.5) ? 1 : 1 + world_.Below(shards_.size());
  std::vector<Partitions::Way> ways;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string& shard = shards_[(first + i) % shards_.size()]->host().name;
    if (kind != FaultKind::kFromCoordinator) ways.emplace_back(shard, coordinator);
    if (kind != FaultKind::kToCoordinator) ways.emplace_back(coordinator, shard);
  }
  Cut(kind, ways, world_.Between(absl::Milliseconds(50), absl::Seconds(3)));
}

// For so long that it gives its place up, unless the coordinator is away as well.
void Cluster::CutClients() {
  const std::string& shard = shards_[world_.Below(shards_.size())]->host().name;
  std::vector<Partitions::Way> ways = Partitions::Both(shard, coordinator_.host().name);
  const auto from = [&](SimClient& client) {
    for (Partitions::Way& way : Partitions::Both(shard, client.host().name)) ways.push_back(std::move(way));
  };
  for (const auto& worker : workers_) from(*worker);
  for (const auto& reader : readers_) from(*reader);
  Cut(FaultKind::kClientsCut, ways, world_.Between(absl::Seconds(2), absl::Seconds(7)));
}

void Cluster::Cut(FaultKind kind, const std::vector<Partitions::Way>& ways, absl::Duration lasts) {
  const absl::Time until = world_.Now() + lasts;
  last_fault_ = std::max(last_fault_, until);
  world_.partitions.Add(ways, until, [this, kind] { Count(kind); });
  for (const Partitions::Way& way : ways)
    world_.Trace(absl::StrCat("cut from ", way.first, " to ", way.second));
  // Some streams break before it is over; the others go on.
  for (const std::shared_ptr<Connection>& connection : world_.network.connections()) {
    const auto& [client, server] = std::pair(connection->info().client, connection->info().server);
    const bool on = std::any_of(ways.begin(), ways.end(), [&](const Partitions::Way& way) {
      return way == Partitions::Way(client, server) || way == Partitions::Way(server, client);
    });
    if (!on || world_.Chance(0.5)) continue;
    world_.scheduler.After(lasts * world::UnitInterval(world_.random), [connection] {
      connection->Break(absl::UnavailableError("no answer to keep-alive pings"));
    });
  }
}

bool Cluster::HandOver() {
  if (plan_.replicas == 0 || coordinator_.core() == nullptr || coordinator_.host().Paused(world_.Now()))
    return false;
  v1::HandOverShardRequest request;
  request.set_shard(shards_[world_.Below(shards_.size())]->host().name);
  request.set_timeout_ms(2000);
  coordinator_.Visit([&](auto& core) {
    core.HandOverShard(request, absl::InfiniteFuture(), [this](absl::StatusOr<v1::HandOverShardReply> reply) {
      world_.marks.Hit(reply.ok() && reply->handed_over() > 0 ? "segments are handed over"
                                                              : "a hand-over fails");
    });
  });
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
