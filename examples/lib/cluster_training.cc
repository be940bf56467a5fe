#include "examples/lib/cluster_training.h"

#include <memory>
#include <utility>

#include "examples/lib/console.h"
#include "examples/lib/count_work.h"
#include "examples/lib/steady_now.h"
#include "examples/lib/text_file.h"
#include "examples/lib/trace.h"
#include "examples/lib/worker_group.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

std::vector<WorkerTrace> TracesOf(const std::vector<WorkerReport>& reports) {
  std::vector<WorkerTrace> traces;
  for (const WorkerReport& report : reports) {
    traces.push_back({.rank = static_cast<uint32_t>(traces.size()),
                      .spans = report.trace,
                      .left_out = report.trace_left_out});
  }
  return traces;
}

}  // namespace

ClusterTraining TrainOnCluster(const std::vector<std::string>& arguments, const JobOptions& options,
                               Progress::Options shown, const std::optional<QueuedWork>& queued) {
  ClusterTraining training;
  absl::StatusOr<std::unique_ptr<WorkerGroup>> group =
      WorkerGroup::Start(arguments, options.job, options.workers, options.by_queue());
  if (!group.ok()) {
    training.status = group.status();
    return training;
  }
  shown.workers = options.workers;
  shown.width = TerminalWidth();
  Progress progress(shown, WriteError);
  absl::Time next_look = absl::InfinitePast();
  while (training.status.ok() && !(*group)->done()) {
    training.status = (*group)->Wait(kLookEvery);
    if (const absl::Time now = SteadyNow(); now >= next_look || (*group)->done()) {
      progress.Show(Sum((*group)->reports()), now);
      next_look = now + kLookEvery;
    }
  }
  progress.End();
  training.signal = (*group)->signal();
  training.totals = Sum((*group)->reports());
  if (training.status.ok() && options.count_work) {
    const QueuedWork work = queued.value_or(
        QueuedWork{.examples = shown.examples_per_epoch, .passes = static_cast<uint64_t>(shown.epochs)});
    absl::StatusOr<uint64_t> again = TrainedAgain(ReaderClient("count", options), work.examples, work.passes);
    training.status = again.status();
    if (again.ok()) training.totals.trained_again = *again;
  }
  if (training.status.ok() && !options.trace_out.empty()) {
    training.status = WriteFile(options.trace_out, TraceJson(TracesOf((*group)->reports())));
  }
  return training;
}

int FailTraining(absl::string_view program, const ClusterTraining& training) {
  Fail(program, training.status);
  return training.signal != 0 ? 128 + training.signal : 1;
}

}  // namespace paceline::examples
