#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/soak/real_cluster.h"
#include "bench/soak/recovery_probe.h"
#include "libs/world/random.h"

namespace paceline::bench {

// The target of a fault: it is killed, stopped, cut or slowed.
enum class Target {
  kShard,
  kCoordinator,
  kWorker,
  kLink,  // to a shard or the coordinator
  kAll,   // shards and the coordinator, at once; killed only
};

// The faults of a run and their effects.
struct FaultCounts {
  int kills = 0;
  int kills_of_all = 0;  // at once; each process counts as killed, too
  int stops = 0;
  int cuts = 0;                          // of links, those that were only slow among them
  uint64_t takeovers = 0;                // segments with another primary after a fault than before
  std::vector<double> recovery_seconds;  // after each kill of a shard that was primary of some segments
};

// Kills and stops one process of a cluster after another, and cuts one link after another, each when the
// cluster is in sync again. Kills shards only if their segments have replicas or disks: otherwise their data
// would be gone.
class Faults {
 public:
  // `restart_worker` starts one that was killed again, as another session; `say` is told of each fault in a
  // line.
  using RestartWorker = std::function<absl::Status(const std::string& name)>;
  using Say = std::function<void(const std::string& line)>;
  Faults(RealCluster& cluster, RecoveryProbe& probe, std::vector<Target> targets,
         std::vector<std::string> workers, RestartWorker restart_worker, Say say, uint64_t seed)
      : cluster_(cluster),
        probe_(probe),
        targets_(std::move(targets)),
        workers_(std::move(workers)),
        restart_worker_(std::move(restart_worker)),
        say_(std::move(say)),
        random_(seed) {}

  // One fault, and all that follows from it, until the cluster is in sync again. There must be targets.
  absl::Status One();
  // The same with a shard that is killed.
  absl::Status KillShard(const std::string& name);

  const FaultCounts& counts() const { return counts_; }

 private:
  absl::Status KillAndRestartShard(const std::string& name);
  absl::Status KillCoordinator();
  absl::Status KillAll();
  absl::Status KillWorker(const std::string& name);
  absl::Status BreakLink();
  absl::Status StopAWhile(const std::string& name);
  // Until pushes to all segments of which the shard was primary are acknowledged.
  absl::Status AwaitRecovery(const ring::SegmentMap& before, const std::string& shard, absl::Time since);
  absl::Status AwaitInSync();
  // Does `fault` and says what it was and how long the cluster took to be in sync again.
  absl::Status Tell(const std::string& what, const std::function<absl::Status()>& fault);
  void CountTakeovers(const ring::SegmentMap& before);
  template <class T>
  T Any(const std::vector<T>& of) {
    return of[world::Uniform(random_, of.size())];
  }

  RealCluster& cluster_;
  RecoveryProbe& probe_;
  const std::vector<Target> targets_;
  const std::vector<std::string> workers_;
  const RestartWorker restart_worker_;
  const Say say_;
  world::SplitMix64 random_;
  FaultCounts counts_;
};

}  // namespace paceline::bench
