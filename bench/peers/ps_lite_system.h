#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "bench/lr_model.h"
#include "bench/peers/system.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// What its server keeps rows in: the unordered_map of ps-lite's own KVServerDefaultHandle, or an array that
// is indexed by the key, the least that a server can do.
enum class PsLiteRows { kMap, kFlat };

// Builds ps-lite and the driver from its sources in `ps_lite` and those of this project, in a folder of the
// user's cache that later calls use again. Returns the driver's path. An error has the build's output.
absl::StatusOr<std::filesystem::path> BuildPsLiteDriver(const std::filesystem::path& ps_lite);

class PsLite : public System {
 public:
  struct Epoch {
    double seconds = 0;
    double loss = 0;  // the mean
  };
  // An epoch of logistic regression on the batches in `file` (WriteBatches), kAhead pulls ahead, by the
  // worker.
  virtual absl::StatusOr<Epoch> TrainEpoch(const std::filesystem::path& file) = 0;
};

// The batches as the driver reads them.
absl::Status WriteBatches(const std::vector<lr::Batch>& batches, const std::filesystem::path& file);

// A scheduler, a server and a worker as processes.
absl::StatusOr<std::unique_ptr<PsLite>> StartPsLite(tool::Supervisor& supervisor,
                                                    const std::filesystem::path& driver,
                                                    const std::filesystem::path& folder, const Data& data,
                                                    PsLiteRows rows);

}  // namespace paceline::bench::peers
