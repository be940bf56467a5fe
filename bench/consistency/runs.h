#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/consistency/pauses.h"
#include "examples/lib/totals.h"
#include "paceline/table_schema.h"

namespace paceline::bench {

enum class TrainedJob { kFactors, kTopics };
const char* NameOf(TrainedJob job);

// The workers of each run.
constexpr uint32_t kTrainedWorkers = 4;
// A run that does not reach a loss, or goes astray, counts as this long.
constexpr double kNeverSeconds = 15;

// How large the runs are. The default: a run takes 6 s, or 12 if all wait for the slow worker of each clock.
struct RunSizes {
  int factor_passes = 8;  // of 20 clocks
  int topic_passes = 16;  // of 10 clocks
  absl::Duration each = absl::Milliseconds(14);
  absl::Duration slow = absl::Milliseconds(140);
};

// A training by the workers of the examples, as threads of this process.
struct TrainingSpec {
  TrainedJob job = TrainedJob::kFactors;
  Consistency consistency;
  Pauses::Kind pauses = Pauses::Kind::kTurns;
  uint64_t seed = 1;
  float lr = 0.04f;  // kFactors
};

struct TrainingRun {
  bool diverged = false;  // then there is nothing else
  double seconds = 0;
  double to_reference = 0;    // seconds until the loss is that of the reference; kNeverSeconds: never
  double loss_per_clock = 0;  // area under the curve
  double waiting = 0;         // share of the workers' time in calls of the SDK
  std::vector<examples::LossPoint> curve;
  std::map<uint64_t, uint64_t> staleness_rows;
};

// Trains on a cluster, each time as another job, on data that it has made itself.
class Trainer {
 public:
  // `folder` is for the data. The error of Prepare says what cannot be written.
  Trainer(std::string coordinator, std::filesystem::path folder, const RunSizes& sizes)
      : coordinator_(std::move(coordinator)), folder_(std::move(folder)), sizes_(sizes) {}
  absl::Status Prepare();

  absl::StatusOr<TrainingRun> Run(const TrainingSpec& spec);

 private:
  struct Reference {
    double loss = 0;
    uint64_t window = 0;  // examples that a loss is the mean of
  };
  absl::StatusOr<TrainingRun> Factors(const TrainingSpec& spec);
  absl::StatusOr<TrainingRun> Topics(const TrainingSpec& spec);
  template <class Options>
  absl::StatusOr<TrainingRun> Train(const TrainingSpec& spec, Options options, const Reference& reference);
  absl::StatusOr<Reference> FactorsReference(uint64_t seed);
  absl::StatusOr<Reference> TopicsReference(uint64_t seed);

  std::string RatingsFile() const { return (folder_ / "ratings.txt").string(); }
  std::string DocumentsFile() const { return (folder_ / "documents.ldac").string(); }

  const std::string coordinator_;
  const std::filesystem::path folder_;
  const RunSizes sizes_;
  uint64_t runs_ = 0;
  std::map<std::pair<TrainedJob, uint64_t>, Reference> references_;  // by seed
};

}  // namespace paceline::bench
