#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/consistency/plan.h"
#include "bench/consistency/runs.h"
#include "bench/result.h"

namespace paceline::bench {

// The runs of a plan, and what they show: one list of results, of which each has the picture that it belongs
// to among its parameters. A result beside a "goal" is met if its ratio is at most 1, or at least 1 if more
// is better.
class Pictures {
 public:
  // `proceed`: not OK if there shall be no further run.
  Pictures(Trainer& trainer, Plan plan, std::function<absl::Status()> proceed)
      : trainer_(trainer), plan_(std::move(plan)), proceed_(std::move(proceed)) {}

  // `only`: "staleness", "convergence", "delays" or "auto"; empty: all of them.
  absl::Status Run(const std::string& only);
  const std::vector<Result>& results() const { return results_; }

 private:
  using Runs = std::vector<TrainingRun>;  // by seed

  absl::Status Staleness();
  absl::Status Convergence();
  absl::Status Delays();
  absl::Status Automatic();

  void AddStaleness(TrainedJob job, const Model& model, const TrainingRun& run);
  void AddConvergence(TrainedJob job, const std::vector<Model>& models, const std::vector<Runs>& runs);
  void AddWaiting(TrainedJob job, const std::vector<Model>& models, const std::vector<Runs>& runs);
  absl::StatusOr<float> TunedRate();

  absl::StatusOr<TrainingRun> One(const std::string& what, const TrainingSpec& spec);
  void Add(nlohmann::json params, const std::string& metric, double value, const std::string& limit_name,
           double limit, bool lower);
  void AddGoal(nlohmann::json params, const std::string& metric, double value, double goal,
               bool lower = true) {
    Add(std::move(params), metric, value, "goal", goal, lower);
  }

  Trainer& trainer_;
  const Plan plan_;
  const std::function<absl::Status()> proceed_;
  double longest_ = 0;
  std::vector<Result> results_;
};

}  // namespace paceline::bench
