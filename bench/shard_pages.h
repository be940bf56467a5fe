#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline::bench {

// The pages of metrics of a cluster's shards.
class ShardPages {
 public:
  // Asks the coordinator where they are.
  static absl::StatusOr<ShardPages> Of(const std::string& coordinator);

  // A metric, with its labels if it has some, summed over all shards; a shard that does not answer counts
  // nothing.
  double Sum(absl::string_view metric) const;
  // The same of each shard.
  std::vector<double> Each(absl::string_view metric) const;
  // CPU seconds of all shards since they started.
  double CpuSeconds() const { return Sum("process_cpu_seconds_total"); }

 private:
  std::vector<std::string> addresses_;  // host:port
};

}  // namespace paceline::bench
