#include "bench/peers/peers.h"

#include <algorithm>
#include <thread>

#include "absl/strings/match.h"
#include "bench/peers/meters.h"
#include "bench/peers/plan.h"
#include "bench/peers/ps_lite_system.h"
#include "bench/peers/stage.h"
#include "bench/peers/training.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {
namespace {

// How much of the machine others took meanwhile.
Result ForeignShare(const Data& data, const MachineCpu& before, const MachineCpu& after, double seconds) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const double foreign = (after.all - before.all) - (after.ours - before.ours);
  return {.workload = "peers",
          .params = {{"data", data.name}, {"seconds", seconds}},
          .metric = "foreign CPU seconds",
          .value = std::max(0.0, foreign),
          .limit_name = "of all cores",
          .limit = seconds * cores,
          .lower_is_better = true};
}

absl::StatusOr<std::vector<Result>> RunStage(tool::Supervisor& supervisor, const Plan& plan, Stage& stage,
                                             const absl::StatusOr<std::filesystem::path>& driver) {
  const MachineCpu before = MachineCpu::Now();
  const absl::Time start = world::MonotonicNow();
  std::vector<Result> results;
  {  // its processes are waited for at the end, and then counted
    ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
    StageRun run(supervisor, plan, stage, folder->path());
    ABSL_RETURN_IF_ERROR(run.Start(driver));
    ABSL_RETURN_IF_ERROR(run.Measure());
    ABSL_RETURN_IF_ERROR(run.Check());
    results = run.Results();
  }
  const double seconds = absl::ToDoubleSeconds(world::MonotonicNow() - start);
  results.push_back(ForeignShare(stage.data, before, MachineCpu::Now(), seconds));
  return results;
}

}  // namespace

absl::StatusOr<std::vector<Result>> Peers(const Setting& setting) {
  if (HasRealTimePriority()) {
    return absl::FailedPreconditionError(
        "peers: this process has a real-time priority, which others do not run with: start it without chrt");
  }
  absl::StatusOr<std::filesystem::path> driver = absl::NotFoundError("--ps-lite DIR is not given");
  if (!setting.ps_lite.empty()) {
    driver = BuildPsLiteDriver(setting.ps_lite);
    ABSL_RETURN_IF_ERROR(driver.status());
  }
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  Plan plan = MakePlan(setting);
  plan.near = setting.near;
  const auto wanted = [&setting](const std::string& name) { return absl::StrContains(name, setting.only); };
  std::vector<Result> results;
  for (Stage& stage : plan.stages) {
    if (!wanted(stage.data.name)) continue;
    ABSL_ASSIGN_OR_RETURN(const std::vector<Result> some, RunStage(*supervisor, plan, stage, driver));
    results.insert(results.end(), some.begin(), some.end());
  }
  if (!wanted("logistic regression")) return results;
  ABSL_ASSIGN_OR_RETURN(const std::vector<Result> training, TrainInTurns(*supervisor, setting, driver));
  results.insert(results.end(), training.begin(), training.end());
  return results;
}

}  // namespace paceline::bench::peers
