#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "tools/paceline/local_cluster.h"
#include "tools/paceline/supervisor.h"

namespace paceline::tool {

// A fault drill: kills one shard, once, while a job trains on the cluster, and reports on standard error when
// its replicas have taken over. For one thread; call Step when NextStep() has come.
class Drill {
 public:
  // Both must outlive this.
  Drill(Supervisor& supervisor, LocalCluster& cluster);

  // InfiniteFuture: the drill is over.
  absl::Time NextStep() const { return next_; }
  void Step();
  // True: the drill killed this process, so its end is no accident.
  bool Killed(const Child& child) const { return victim_ == &child; }

 private:
  void AwaitTraining();
  void Kill();
  void AwaitTakeover();

  Supervisor& supervisor_;
  LocalCluster& cluster_;
  absl::Time next_;
  std::optional<absl::Time> pushed_since_;  // when the drill first saw rows being pushed
  const Child* victim_ = nullptr;
  uint32_t shard_ = 0;
  size_t segments_ = 0;  // of which it was primary
  absl::Time killed_;
};

}  // namespace paceline::tool
