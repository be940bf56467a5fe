#include "examples/sparse_lr/indexed.h"

#include <csignal>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/lib/console.h"
#include "examples/lib/count_work.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/progress.h"
#include "examples/lib/schedule.h"
#include "examples/lib/steady_now.h"
#include "examples/lib/text_file.h"
#include "examples/lib/totals.h"
#include "examples/sparse_lr/ftrl_reference.h"
#include "examples/sparse_lr/libsvm.h"
#include "examples/sparse_lr/outcome.h"
#include "examples/sparse_lr/read_model.h"
#include "examples/sparse_lr/training_set.h"
#include "examples/sparse_lr/worker.h"
#include "paceline/client.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);
constexpr absl::Duration kOthersMayTake = absl::Minutes(5);
constexpr double kTolerance = 1.01;
constexpr double kQueueTolerance = 1.05;  // another order of the examples makes another model

size_t ClocksOf(const RunOptions& options, const Dataset& train) {
  return Schedule({.examples = train.rows(),
                   .batch_size = options.batch_size,
                   .workers = options.workers,
                   .epochs = options.epochs,
                   .seed = options.seed},
                  options.index)
      .clocks();
}

// Whether all clocks of the job are over: a worker that is started again so late has nothing to do, and
// nobody to start with.
bool IsOver(const RunOptions& options, const Dataset& train) {
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(ReaderClient(kProgram, options));
  if (!client.ok()) return false;
  absl::StatusOr<Table> table = (*client)->Open("weights");
  return table.ok() &&
         table->Pull({uint64_t{0}}, {.min_clock = ClocksOf(options, train), .timeout = kLook}).ok();
}

// The model with every update of every worker.
absl::StatusOr<std::vector<float>> FinishedModel(const RunOptions& options, const Dataset& train) {
  const absl::Time until = SteadyNow() + kOthersMayTake;
  // A queue that is complete has every update committed, whatever the clocks.
  const uint64_t clocks = options.by_queue() ? 0 : ClocksOf(options, train);
  while (true) {
    absl::StatusOr<std::vector<float>> model = ReadModel(options, train.column_count, clocks);
    if (model.ok() || !absl::IsDeadlineExceeded(model.status()) || SteadyNow() > until) return model;
  }
}

int Judge(const RunOptions& options, const TrainingSet& set, const Totals& totals) {
  const Dataset& train = set.data;
  absl::StatusOr<Dataset> test = ReadLibsvm(options.test);
  if (!test.ok()) return Fail(kProgram, test.status());
  DivideAs(set, &*test);
  const absl::StatusOr<std::vector<float>> model = FinishedModel(options, train);
  if (!model.ok()) return Fail(kProgram, model.status());
  const std::vector<float> alone = TrainReference(train, ReferenceOf(options, set.shape));
  Outcome outcome{.cluster = ScoreOf(train, *test, *model, PenaltiesOf(options)),
                  .reference = ScoreOf(train, *test, alone, PenaltiesOf(options)),
                  .rows = train.rows(),
                  .totals = totals,
                  .not_converged = WhyNotConverged(options, train, *test, *model)};
  outcome.cluster.seconds = totals.seconds;
  if (options.count_work) {
    const absl::StatusOr<uint64_t> again =
        TrainedAgain(ReaderClient(kProgram, options), train.rows(), static_cast<uint64_t>(options.epochs));
    if (!again.ok()) return Fail(kProgram, again.status());
    std::printf("sparse_lr: all examples of all epochs are trained, %d of them once more\n",
                static_cast<int>(*again));
    outcome.totals.trained_again = *again;
  }
  const double tolerance = options.by_queue() ? kQueueTolerance : kTolerance;
  const bool ok = outcome.cluster.test.log_loss <= tolerance * outcome.reference.test.log_loss;
  std::printf("sparse_lr: %s log_loss=%.4f reference=%.4f auc=%.4f\n", ok ? "ok" : "failed",
              outcome.cluster.test.log_loss, outcome.reference.test.log_loss, outcome.cluster.test.auc);
  if (!outcome.not_converged.empty()) {
    WriteError(absl::StrCat("sparse_lr: warning: ", outcome.not_converged, "\n"));
  }
  if (!options.json_out.empty()) {
    if (absl::Status s = WriteFile(options.json_out, OutcomeJson(options, outcome)); !s.ok())
      return Fail(kProgram, s);
  }
  return ok ? 0 : 1;
}

}  // namespace

int RunIndexed(const RunOptions& given) {
  RunOptions options = given;
  options.worker = options.index;
  options.join = options.by_queue();  // nobody waits for it, and it for nobody
  const absl::StatusOr<TrainingSet> set = ReadTrainingSet(options.train, options.scale);
  if (!set.ok()) return Fail(kProgram, set.status());
  const Dataset& train = set->data;
  if (!options.by_queue() && IsOver(options, train)) {
    std::printf("sparse_lr: the others have finished without worker %d\n", options.index);
    std::fflush(stdout);
    return options.index == 0 ? Judge(options, *set, Totals()) : 0;
  }
  Progress progress({.examples_per_epoch = std::max<uint64_t>(1, train.rows() / options.workers),
                     .epochs = options.epochs,
                     .workers = 1,
                     .width = 0},
                    WriteError);
  Totals totals;
  const absl::Status status =
      Work(kProgram, options, /*patient=*/true, TrainingOf(options), [&](const WorkerReport& report) {
        totals = Sum({report});
        progress.Show(totals, SteadyNow());
      });
  progress.End();
  if (!status.ok()) {
    Fail(kProgram, status);
    return ToldToStop() ? 128 + SIGTERM : 1;
  }
  std::printf("sparse_lr: worker %d of %u has finished examples=%d seconds=%.1f wait_seconds=%.1f\n",
              options.index, options.workers, static_cast<int>(totals.examples), totals.seconds,
              totals.wait.total());
  std::fflush(stdout);
  return options.index == 0 ? Judge(options, *set, totals) : 0;
}

}  // namespace paceline::examples
