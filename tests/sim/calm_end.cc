// The end of a run. Once all users have gone and the last fault is over, other users work for a while where
// nothing fails but what the script says: one shard hands over, another one dies, and one of the users.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/wire/map_codec.h"
#include "tests/sim/cluster.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kRecovers = absl::Seconds(12);  // after the last fault, and after a death
constexpr absl::Duration kSteady = absl::Milliseconds(150);
constexpr absl::Duration kHandsOver = absl::Seconds(1);
constexpr absl::Duration kTakesOver = absl::Milliseconds(600);  // beside the time that was lent
constexpr absl::Duration kLook = absl::Milliseconds(1);

}  // namespace

void Cluster::RunFor(absl::Duration duration) {
  const absl::Time until = world_.Now() + duration;
  RunUntil([this, until] { return world_.Now() >= until; });
}

bool Cluster::Within(absl::Duration most, const std::string& what, const std::function<bool()>& done) {
  const absl::Time began = world_.Now();
  bool is = false;
  absl::Time next_look = began;
  // What is looked at changes with events only, and looking costs more than they do.
  RunUntil([&] {
    if (world_.Now() < next_look) return false;
    next_look = world_.Now() + kLook;
    is = done();
    return is || world_.Now() > began + most;
  });
  if (is || !world_.verdict.ok()) return is;
  world_.verdict.Violated("Prompt",
                          absl::StrCat(absl::FormatDuration(world_.Now() - began), " later not ", what));
  return false;
}

SimShard* Cluster::StartOf(const v1::Member& member) {
  const auto it = std::ranges::find_if(shards_, [&](const auto& shard) {
    return shard->up() && shard->self() == wire::MemberFromProto(member);
  });
  return it == shards_.end() ? nullptr : it->get();
}

std::string Cluster::Ails(const v1::SegmentConfig& config, SegmentId segment, bool idle) {
  SimShard* shard = StartOf(config.primary());
  const auto at = [&](SimShard& one) -> shard::SegmentHost& { return one.shard().context().host(segment); };
  if (shard == nullptr || shard->map_version() == 0) return "its primary is gone";
  log::Primary* primary = at(*shard).primary();
  if (primary == nullptr || primary->epoch() != Epoch(config.epoch())) return "its primary does not know yet";
  if (!primary->MayAnswer()) return "its primary may not answer";
  if (primary->replicas().learners() > 0) return "it has a learner";
  if (idle && primary->replicas().uncommitted() > 0) return "not everything is committed";
  if (idle && primary->replicas().safe() < primary->segment().version()) return "not everything is safe";
  if (idle && primary->pending_acks() > 0) return "not everything is acknowledged";
  for (const v1::Member& member : config.replicas()) {
    SimShard* replica = StartOf(member);
    if (replica == nullptr || replica->map_version() == 0) return "a replica is gone";
    const shard::SegmentHost& host = at(*replica);
    if (host.role() != shard::Role::kReplica || host.epoch() != primary->epoch() || !host.follower()->whole())
      return "a replica does not know yet";
    if (!idle) continue;
    if (host.follower()->position().lsn != primary->segment().version()) return "a replica lacks records";
    if (!primary->replicas().Holds(wire::MemberFromProto(member))) return "a replica does not count";
  }
  return "";
}

std::string Cluster::Ails(bool idle) {
  coordinator::CoordinatorCore* core = coordinator_.core();
  if (core == nullptr || coordinator_.aged()) return "the coordinator is down";
  if (UnderReplicated() > 0) return "a segment has too few replicas";
  const v1::Map& map = coordinator_.map();
  for (int s = 0; s < map.segments_size(); ++s) {
    const SegmentId segment(static_cast<uint32_t>(s));
    if (const std::string why = Ails(map.segments(s), segment, idle); !why.empty())
      return absl::StrCat("segment ", s, ": ", why);
  }
  return "";
}

std::vector<SegmentId> Cluster::PrimaryOf(const SimShard& shard) {
  std::vector<SegmentId> segments;
  const v1::Map& map = coordinator_.map();
  for (int s = 0; s < map.segments_size(); ++s) {
    if (wire::MemberFromProto(map.segments(s).primary()) == shard.self())
      segments.emplace_back(static_cast<uint32_t>(s));
  }
  return segments;
}

void Cluster::Visit(uint32_t visitors) {
  for (uint32_t v = 0; v < visitors; ++v) {
    const WorkerPlan plan{.staleness = v, .bsp = v == 0, .think = absl::Milliseconds(5), .starts_at = {}};
    workers_.push_back(std::make_unique<Worker>(world_, coordinator_, absl::StrCat("visitor-", v), "job",
                                                plan, visitors, /*clocks=*/UINT64_MAX));
    visitors_.push_back(workers_.back().get());
    visitors_.back()->on_took = [this, name = visitors_.back()->name()](const char* what,
                                                                        absl::Duration took) {
      calm_.Took(name, what, took, plan_.durable);
    };
    visitors_.back()->on_failed = [this, name = visitors_.back()->name()](const absl::Status& why) {
      // The answer to its sign of life may overtake the one to its close.
      if (absl::StrContains(why.message(), "was closed: it is done")) return;
      // The others were faster than its start was agreed: it comes again, as users do (OnEnded).
      if (absl::IsAborted(why) && absl::StrContains(why.message(), "join again with a new session")) return;
      world_.verdict.Violated("Calm", absl::StrCat(name, " fails: ", why.ToString()));
    };
    visitors_.back()->Begin();
  }
}

void Cluster::HandOverCalmly() {
  if (plan_.replicas == 0) return;
  SimShard& shard = *shards_[world::Uniform(calmly_, shards_.size())];
  const size_t before = PrimaryOf(shard).size();
  if (!shard.up() || before == 0) return;
  world_.Trace(absl::StrCat("calmly: ", shard.host().name, " hands over ", before, " segments"));
  calm_.Excuse();
  v1::HandOverShardRequest request;
  request.set_shard(shard.host().name);
  request.set_timeout_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(kHandsOver)));
  auto reply = std::make_shared<std::optional<absl::StatusOr<v1::HandOverShardReply>>>();
  coordinator_.Visit([&](auto& core) {
    core.HandOverShard(request, absl::InfiniteFuture(), [reply](auto answer) { *reply = std::move(answer); });
  });
  if (!Within(kHandsOver, "handed over", [&] { return reply->has_value(); })) return;
  RunFor(kSteady);
  calm_.Resume();
  const auto& answer = **reply;
  if (answer.ok() && answer->kept_size() == 0 && answer->handed_over() >= before) return;
  world_.verdict.Violated(
      "Prompt", absl::StrCat(shard.host().name, " was primary of ", before, " segments: ",
                             answer.ok() ? answer->ShortDebugString() : answer.status().ToString()));
}

// Of the replicas that hold the same, the one on the shard that is primary of the fewest segments takes over.
void Cluster::CheckSpread(const v1::Map& before, const std::vector<SegmentId>& taken) {
  std::map<uint32_t, int> primaries;
  const v1::Map& map = coordinator_.map();
  for (const v1::SegmentConfig& config : map.segments()) primaries[config.primary().shard()] += 1;
  std::set<uint32_t> looked_at;
  for (auto it = taken.rbegin(); it != taken.rend(); ++it) {
    const v1::SegmentConfig& config = map.segments(static_cast<int>(it->v));
    const uint32_t by = config.primary().shard();
    if (!looked_at.insert(by).second) continue;  // it took more afterwards
    for (const v1::Member& other : before.segments(static_cast<int>(it->v)).replicas()) {
      if (primaries[by] <= primaries[other.shard()] + 1) continue;
      world_.verdict.Violated(
          "Prompt",
          absl::StrCat("shard ", by, ", primary of ", primaries[by], " segments, takes over segment ", it->v,
                       " rather than shard ", other.shard(), ", of ", primaries[other.shard()]));
    }
  }
}

void Cluster::KillCalmly() {
  SimShard& shard = *shards_[world::Uniform(calmly_, shards_.size())];
  if (!shard.up() || (!plan_.durable && (plan_.replicas == 0 || !CanDoWithout(shard)))) return;
  absl::Duration lease;
  for (const auto& other : shards_) {
    if (other->up())
      other->ForEachPrimary(
          [&](log::Primary& primary) { lease = std::max(lease, primary.replicas().lease()); });
  }
  // Replicas that hold the same are equally good.
  const absl::Time tried = world_.Now() + kSteady;
  bool equal = false;
  RunUntil([&] { return (equal = Ails(/*idle=*/true).empty()) || world_.Now() > tried; });
  const std::vector<SegmentId> taken = PrimaryOf(shard);
  const v1::Map before = coordinator_.map();
  if (!world_.verdict.ok() || !shard.up()) return;
  const absl::Duration down =
      world::Chance(calmly_, 0.5) ? absl::Milliseconds(100) : absl::Milliseconds(1200) + lease;
  world_.Trace(absl::StrCat("calmly: ", shard.host().name, " dies"));
  calm_.Excuse();
  shard.Kill();
  world_.scheduler.After(down, [&shard] { shard.Start(); });
  const auto taken_over = [&] {
    return std::ranges::all_of(taken, [&](SegmentId segment) {
      const v1::SegmentConfig& config = coordinator_.map().segments(static_cast<int>(segment.v));
      SimShard* now = StartOf(config.primary());
      log::Primary* primary = now == nullptr || now->map_version() == 0
                                  ? nullptr
                                  : now->shard().context().host(segment).primary();
      return primary != nullptr && primary->epoch() == Epoch(config.epoch()) && primary->MayAnswer();
    });
  };
  const absl::Duration patience =
      plan_.replicas == 0 ? down + absl::Seconds(1) : log::Patience(lease) * (1 + log::kDrift) + kTakesOver;
  if (!Within(patience, absl::StrCat("taken over from ", shard.host().name), taken_over)) return;
  if (equal && plan_.replicas > 0) CheckSpread(before, taken);
  Within(kRecovers, "as it should be", [this] { return Ails(/*idle=*/false).empty(); });
  RunFor(kSteady);
  calm_.Resume();
}

// A user that is silent is given up after its time, and holds nobody up any more.
void Cluster::LoseVisitor() {
  Worker& lost = *visitors_.back();
  if (!lost.up()) return;
  const SessionId session = lost.session();
  calm_.Excuse();
  lost.Vanish();
  const TrueSession* truth = world_.truth.Find(session);
  if (truth == nullptr || truth->closing) return;
  RunFor(absl::Seconds(1));
  if (truth->closing)
    world_.verdict.Violated("Prompt", absl::StrCat("session ", session.v, " is given up too early"));
  Within(absl::Seconds(1), absl::StrCat("evicted: session ", session.v), [truth] { return truth->closing; });
  RunFor(kSteady);
  calm_.Resume();
}

void Cluster::EndCalmly() {
  if (!world_.verdict.ok()) return;
  swaps_to_lose_ = adds_to_repeat_ = 0;
  if (!Within(std::max(last_fault_ + kRecovers - world_.Now(), absl::Seconds(5)), "as it should be",
              [this] { return Ails(/*idle=*/true).empty(); }))
    world_.Trace(Ails(/*idle=*/true));
  if (last_fault_ + Calm::kSettled > world_.Now()) RunFor(last_fault_ + Calm::kSettled - world_.Now());
  world_.network.latency.slow = world_.calls.latency.slow = 0;
  Visit(/*visitors=*/2);
  RunFor(kSteady);
  HandOverCalmly();
  RunFor(kSteady);
  KillCalmly();
  RunFor(kSteady);
  LoseVisitor();
  for (Worker* visitor : visitors_) visitor->Stop();
  Within(absl::Seconds(5), "done: the visitors", [this] { return WorkersDone(); });
  Within(kRecovers, "as it was", [this] { return Ails(/*idle=*/true).empty(); });
}

}  // namespace paceline::sim
