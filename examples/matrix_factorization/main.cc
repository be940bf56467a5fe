// Matrix factorisation by stochastic gradient descent, trained by worker processes over a Paceline cluster,
// and the same in one process beside it. `matrix_factorization --help` says how to use it.

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/lib/cluster_training.h"
#include "examples/lib/console.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/read_rows.h"
#include "examples/lib/text_file.h"
#include "examples/matrix_factorization/options.h"
#include "examples/matrix_factorization/outcome.h"
#include "examples/matrix_factorization/reference.h"
#include "examples/matrix_factorization/worker.h"

namespace paceline::examples {
namespace {

// The cluster's model, with every update.
absl::StatusOr<FactorModel> ReadModel(const FactorOptions& options, const Ratings& ratings,
                                      uint64_t min_clock) {
  const ClientOptions reader = ReaderClient(kFactorProgram, options);
  absl::StatusOr<std::vector<float>> users = ReadRows(reader, kUsersTable, ratings.users, min_clock);
  if (!users.ok()) return users.status();
  absl::StatusOr<std::vector<float>> items = ReadRows(reader, kItemsTable, ratings.items, min_clock);
  if (!items.ok()) return items.status();
  return FactorModel{.users = *std::move(users), .items = *std::move(items), .dim = options.dim()};
}

// One run, from the ratings to the report. The exit code.
int Run(const FactorOptions& options, const std::vector<std::string>& arguments) {
  const absl::StatusOr<Ratings> ratings = ReadRatings(options.ratings);
  if (!ratings.ok()) return Fail(kFactorProgram, ratings.status());
  const SplitRatings split = Split(*ratings, options.held_out, options.seed);
  if (split.train.empty() || split.test.empty()) {
    return Fail(kFactorProgram,
                absl::InvalidArgumentError(absl::StrCat(
                    options.ratings, ": expected at least two ratings, found ", ratings->all.size())));
  }
  const Progress::Options shown = {
      .examples_per_epoch = split.train.size(), .epochs = options.epochs, .examples = "ratings"};
  if (options.join) return RunJoining(kFactorProgram, options, TrainingOf(options), shown);
  const ClusterTraining training = TrainOnCluster(arguments, options, shown);
  if (!training.status.ok()) return FailTraining(kFactorProgram, training);
  absl::StatusOr<FactorModel> model = ReadModel(options, *ratings, training.totals.clock_all_have);
  if (!model.ok()) return Fail(kFactorProgram, model.status());
  // After the other, lest they take the cores from each other.
  absl::StatusOr<FactorReference> reference = TrainReference(options, *ratings, split);
  if (!reference.ok()) return Fail(kFactorProgram, reference.status());

  FactorOutcome outcome{.cluster = ScoreOf(split, model->rows()),
                        .reference = ScoreOf(split, reference->model.rows()),
                        .reference_curve = reference->curve,
                        .ratings = split.train.size(),
                        .totals = training.totals};
  outcome.cluster.seconds = training.totals.seconds;
  outcome.reference.seconds = reference->curve.back().seconds;
  std::vector<float> zeros(std::max(model->users.size(), model->items.size()));
  outcome.mean_test_rmse =
      RootMeanSquaredError(split.test, split, {absl::MakeSpan(zeros), absl::MakeSpan(zeros), options.dim()});
  std::fputs(FormatOutcome(options, outcome).c_str(), stdout);
  if (options.json_out.empty()) return 0;
  const absl::Status written = WriteFile(options.json_out, OutcomeJson(options, outcome));
  return written.ok() ? 0 : Fail(kFactorProgram, written);
}

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  using namespace paceline::examples;  // this file's own
  const std::variant<FactorOptions, int> parsed = ParseFactorOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const FactorOptions& options = std::get<FactorOptions>(parsed);
  if (options.worker >= 0) return RunWorkerProcess(kFactorProgram, options, TrainingOf(options));
  return Run(options, std::vector<std::string>(argv, argv + argc));
}
