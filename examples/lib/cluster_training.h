#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/lib/job_options.h"
#include "examples/lib/progress.h"
#include "examples/lib/totals.h"

namespace paceline::examples {

// How a training by worker processes ended.
struct ClusterTraining {
  absl::Status status;  // not OK: a worker failed, or this process was told to stop
  int signal = 0;       // by this one
  Totals totals;
};

// What a work queue has, if it is not what is shown.
struct QueuedWork {
  uint64_t examples = 0;  // of a pass
  uint64_t passes = 0;
};

// Starts the workers, `arguments` being the parent's own command line, shows their progress on standard
// error, and returns when all have ended. Call it before the process starts any thread. `queued`: of a
// work queue that has other examples or passes than those that are shown.
ClusterTraining TrainOnCluster(const std::vector<std::string>& arguments, const JobOptions& options,
                               Progress::Options progress,
                               const std::optional<QueuedWork>& queued = std::nullopt);

// Says why the training failed, and returns the exit code.
int FailTraining(absl::string_view program, const ClusterTraining& training);

}  // namespace paceline::examples
