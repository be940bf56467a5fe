#include "bench/consistency/consistency.h"

#include <cstdio>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "bench/consistency/pictures.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench {
namespace {

constexpr int kShards = 2;
constexpr char kScript[] = "paceline-plot-consistency";

Plan PlanOf(const Setting& setting) {
  if (setting.smallest) return SmallestPlan();
  return setting.quick ? QuickPlan() : WholePlan();
}

// Between runs: whether this process was told to stop, or a process of the cluster has ended.
absl::Status Proceed(tool::Supervisor& supervisor, const tool::LocalCluster& cluster) {
  const tool::Supervisor::Event event = supervisor.Wait(world::MonotonicNow());
  if (std::holds_alternative<tool::Supervisor::Signalled>(event)) {
    return absl::CancelledError("told to stop");
  }
  if (const auto* ended = std::get_if<tool::Supervisor::Ended>(&event)) {
    return absl::AbortedError(cluster.Describe(*ended->child));
  }
  return absl::OkStatus();
}

void PrintGoals(const std::vector<Result>& results) {
  int goals = 0, met = 0;
  for (const Result& result : results) {
    if (result.limit_name != "goal") continue;
    ++goals;
    met += result.lower_is_better ? result.ratio() <= 1 : result.ratio() >= 1;
  }
  std::fprintf(stderr, "consistency: %d of %d goals are met\n", met, goals);
}

}  // namespace

absl::StatusOr<std::vector<Result>> ConsistencyPictures(const Setting& setting) {
  if (!setting.plot.empty()) ABSL_RETURN_IF_ERROR(DrawConsistency("", setting.plot));
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  tool::LocalCluster cluster(*supervisor, *folder, {.programs = tool::FolderOfPrograms(), .shards = kShards});
  absl::Status done = cluster.Start();
  std::vector<Result> results;
  if (done.ok()) {
    Trainer trainer(cluster.address(), folder->path(), PlanOf(setting).sizes);
    done = trainer.Prepare();
    if (done.ok()) {
      Pictures pictures(trainer, PlanOf(setting), [&] { return Proceed(*supervisor, cluster); });
      done = pictures.Run(setting.only);
      results = pictures.results();
    }
  }
  cluster.Stop();
  if (!done.ok()) return done;
  PrintGoals(results);
  return results;
}

absl::Status DrawConsistency(const std::string& json, const std::string& png) {
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  std::vector<std::string> arguments = {"/usr/bin/python3", (tool::FolderOfPrograms() / kScript).string()};
  if (json.empty()) {
    arguments.insert(arguments.end(), {"--check", png});
  } else {
    arguments.insert(arguments.end(), {json, "--out", png});
  }
  ABSL_ASSIGN_OR_RETURN(
      const tool::Child* child,
      supervisor->Start({.name = kScript, .arguments = std::move(arguments), .environment = {}}));
  const absl::Time deadline = world::MonotonicNow() + absl::Minutes(2);
  while (!child->end.has_value()) {
    const tool::Supervisor::Event event = supervisor->Wait(deadline);
    if (std::holds_alternative<tool::Supervisor::Signalled>(event)) {
      return absl::CancelledError("told to stop");
    }
    if (std::holds_alternative<tool::Supervisor::TimedOut>(event)) {
      return absl::DeadlineExceededError(absl::StrCat(kScript, " has not drawn ", png, " within 2 minutes"));
    }
  }
  if (*child->end == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot draw ", png, ": ", kScript, " ", tool::DescribeEnd(*child->end)));
}

}  // namespace paceline::bench
