#include "bench/soak/faults.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::bench {
namespace {

constexpr absl::Duration kInSyncTimeout = absl::Minutes(2);
constexpr absl::Duration kShortStop = absl::Milliseconds(200);  // shorter than any lease
constexpr absl::Duration kLongStop = absl::Seconds(3);          // longer than any lease and session
constexpr absl::Duration kCutMax = absl::Seconds(2);            // shorter than any session
constexpr char kCoordinatorName[] = "coordinator";

// Segments whose primary has that name.
std::vector<SegmentId> PrimariesOf(const ring::SegmentMap& map, const std::string& name) {
  std::vector<SegmentId> segments;
  for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
    const ring::ShardInfo* shard = map.FindShard(map.Primary(SegmentId(s)).shard);
    if (shard != nullptr && shard->name == name) segments.push_back(SegmentId(s));
  }
  return segments;
}

}  // namespace

absl::Status Faults::One() {
  const Target target = Any(targets_);
  if (target == Target::kLink) return BreakLink();
  if (target == Target::kAll) return Tell("killed all", [this] { return KillAll(); });
  std::string name = kCoordinatorName;
  if (target == Target::kShard) name = Any(cluster_.shards());
  if (target == Target::kWorker) name = Any(workers_);
  const bool may_kill = target != Target::kShard || cluster_.options().replicas > 0 || cluster_.durable();
  if (!may_kill || world::Chance(random_, 0.3)) {
    return Tell(absl::StrCat("stopped ", name), [&] { return StopAWhile(name); });
  }
  if (target == Target::kShard) return KillShard(name);
  return Tell(absl::StrCat("killed ", name),
              [&] { return target == Target::kWorker ? KillWorker(name) : KillCoordinator(); });
}

// A link that is cut keeps what is under way: it comes late where the link is mended, or never where its
// connections are reset.
absl::Status Faults::BreakLink() {
  const std::string link = Any(cluster_.links());
  const absl::Duration length = kCutMax * world::UnitInterval(random_);
  const uint64_t how = world::Uniform(random_, 3);
  ++counts_.cuts;
  const auto say = [&](absl::string_view what) {
    return absl::StrFormat("%s %s for %.2f s", what, link, absl::ToDoubleSeconds(length));
  };
  if (how == 0) {
    return Tell(say("slowed"), [&]() -> absl::Status {
      cluster_.Slow(link);
      const absl::Status status = cluster_.Pause(length);
      cluster_.Fast(link);
      ABSL_RETURN_IF_ERROR(status);
      return AwaitInSync();
    });
  }
  return Tell(say(how == 1 ? "cut" : "cut and reset"), [&]() -> absl::Status {
    cluster_.Stop(link);
    const absl::Status status = cluster_.Pause(length);
    if (how == 1) {
      cluster_.Continue(link);
    } else {
      ABSL_RETURN_IF_ERROR(cluster_.Kill(link));
      ABSL_RETURN_IF_ERROR(cluster_.Restart(link));
    }
    ABSL_RETURN_IF_ERROR(status);
    return AwaitInSync();
  });
}

absl::Status Faults::Tell(const std::string& what, const std::function<absl::Status()>& fault) {
  const absl::Time since = world::MonotonicNow();
  const size_t measured = counts_.recovery_seconds.size();
  ABSL_RETURN_IF_ERROR(fault());
  std::string line = what;
  if (counts_.recovery_seconds.size() > measured) {
    absl::StrAppendFormat(&line, ", pushes acknowledged after %.2f s", counts_.recovery_seconds.back());
  }
  absl::StrAppendFormat(&line, ", in sync after %.2f s",
                        absl::ToDoubleSeconds(world::MonotonicNow() - since));
  say_(line);
  return absl::OkStatus();
}

absl::Status Faults::KillShard(const std::string& name) {
  return Tell(absl::StrCat("killed ", name), [&] { return KillAndRestartShard(name); });
}

absl::Status Faults::KillAndRestartShard(const std::string& name) {
  ABSL_ASSIGN_OR_RETURN(const ring::SegmentMap before, cluster_.Map());
  const absl::Time since = world::MonotonicNow();
  ABSL_RETURN_IF_ERROR(cluster_.Kill(name));
  ++counts_.kills;
  // Without replicas only the shard itself can continue.
  const bool others = cluster_.options().replicas > 0;
  if (!others) ABSL_RETURN_IF_ERROR(cluster_.Restart(name));
  ABSL_RETURN_IF_ERROR(AwaitRecovery(before, name, since));
  if (others) ABSL_RETURN_IF_ERROR(cluster_.Restart(name));
  ABSL_RETURN_IF_ERROR(AwaitInSync());
  CountTakeovers(before);
  return absl::OkStatus();
}

absl::Status Faults::KillCoordinator() {
  ABSL_RETURN_IF_ERROR(cluster_.Kill(kCoordinatorName));
  ++counts_.kills;
  ABSL_RETURN_IF_ERROR(cluster_.Pause(absl::Milliseconds(world::Uniform(random_, 1000))));
  ABSL_RETURN_IF_ERROR(cluster_.Restart(kCoordinatorName));
  return AwaitInSync();
}

absl::Status Faults::KillAll() {
  std::vector<std::string> names = cluster_.shards();
  names.push_back(kCoordinatorName);
  ABSL_RETURN_IF_ERROR(cluster_.KillTogether(names));
  counts_.kills += static_cast<int>(names.size());
  ++counts_.kills_of_all;
  while (!names.empty()) {
    const auto next = names.begin() + static_cast<std::ptrdiff_t>(world::Uniform(random_, names.size()));
    ABSL_RETURN_IF_ERROR(cluster_.Restart(*next));
    names.erase(next);
    ABSL_RETURN_IF_ERROR(cluster_.Pause(absl::Milliseconds(world::Uniform(random_, 200))));
  }
  return AwaitInSync();
}

absl::Status Faults::KillWorker(const std::string& name) {
  ABSL_RETURN_IF_ERROR(cluster_.Kill(name));
  ++counts_.kills;
  ABSL_RETURN_IF_ERROR(cluster_.Pause(absl::Milliseconds(world::Uniform(random_, 1000))));
  ABSL_RETURN_IF_ERROR(restart_worker_(name));
  return AwaitInSync();
}

absl::Status Faults::StopAWhile(const std::string& name) {
  const bool at_length = world::Chance(random_, 0.5);
  ABSL_ASSIGN_OR_RETURN(const ring::SegmentMap before, cluster_.Map());
  const absl::Time since = world::MonotonicNow();
  cluster_.Stop(name);
  ++counts_.stops;
  absl::Status status = cluster_.Pause(at_length ? kLongStop : kShortStop);
  cluster_.Continue(name);
  ABSL_RETURN_IF_ERROR(status);
  if (name.starts_with("shard-")) {
    const size_t measured = counts_.recovery_seconds.size();
    ABSL_RETURN_IF_ERROR(AwaitRecovery(before, name, since));
    counts_.recovery_seconds.resize(measured);  // it began to be measured when the stop had ended
  }
  ABSL_RETURN_IF_ERROR(AwaitInSync());
  CountTakeovers(before);
  return absl::OkStatus();
}

absl::Status Faults::AwaitRecovery(const ring::SegmentMap& before, const std::string& shard,
                                   absl::Time since) {
  const std::vector<SegmentId> segments = PrimariesOf(before, shard);
  if (segments.empty()) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(const absl::Duration took, probe_.Measure(segments, since));
  counts_.recovery_seconds.push_back(absl::ToDoubleSeconds(took));
  return absl::OkStatus();
}

absl::Status Faults::AwaitInSync() {
  return cluster_.AwaitInSync(kInSyncTimeout);
}

void Faults::CountTakeovers(const ring::SegmentMap& before) {
  const auto after = cluster_.Map();
  if (!after.ok()) return;
  for (uint32_t s = 0; s < before.SegmentCount(); ++s) {
    if (before.Primary(SegmentId(s)) != after->Primary(SegmentId(s))) ++counts_.takeovers;
  }
}

}  // namespace paceline::bench
