#include "bench/consistency/plan.h"

#include "absl/strings/str_cat.h"
#include "examples/lib/job_options.h"

namespace paceline::bench {

Plan WholePlan() {
  return {};
}

Plan QuickPlan() {
  Plan plan;
  plan.bounds = {0, 3, 10};
  plan.rates = {0.08f, 0.16f};
  plan.seeds = plan.tuning_seeds = plan.rounds = 1;
  plan.minutes_max = 8;
  return plan;
}

Plan SmallestPlan() {
  Plan plan = QuickPlan();
  plan.bounds = {0, 3};
  plan.delays = {0, 2, 16};
  plan.rates = {0.08f};
  plan.sizes = {
      .factor_passes = 1, .topic_passes = 1, .each = absl::Milliseconds(1), .slow = absl::Milliseconds(8)};
  return plan;
}

absl::StatusOr<Model> ModelOf(const std::string& name) {
  absl::StatusOr<Consistency> consistency = examples::ParseModel(name);
  if (!consistency.ok()) return consistency.status();
  return Model{.name = name, .consistency = *consistency};
}

std::vector<Model> StalenessModels() {
  return {{.name = absl::StrCat("ssp:", kShownBound), .consistency = Ssp{.staleness = kShownBound}},
          {.name = absl::StrCat("essp:", kShownBound), .consistency = Essp{.staleness = kShownBound}},
          {.name = absl::StrCat("essp:", kShownBound, ", each advance"),
           .consistency = Essp{.staleness = kShownBound, .every = 1}}};
}

std::vector<Model> ConvergenceModels(TrainedJob job, const std::vector<uint64_t>& bounds) {
  std::vector<Model> models = {{.name = "bsp", .consistency = Bsp{}}};
  for (const uint64_t s : bounds) {
    // Without catch_up, which would let a worker wait longer than its bound asks.
    models.push_back({.name = absl::StrCat("ssp:", s), .consistency = Ssp{.staleness = s}});
    models.push_back({.name = absl::StrCat("essp:", s), .consistency = Essp{.staleness = s}});
  }
  const double v = job == TrainedJob::kFactors ? 0.2 : 20;
  models.push_back({.name = absl::StrCat("vap:", v), .consistency = Vap{.v = v}});
  return models;
}

}  // namespace paceline::bench
