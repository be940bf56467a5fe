// Sparse logistic regression with L1, trained by worker processes over a Paceline cluster, and the same in
// one process beside it. `sparse_lr --help` says how to use it.

#include <chrono>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/lib/cluster_training.h"
#include "examples/lib/console.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/text_file.h"
#include "examples/sparse_lr/ftrl_reference.h"
#include "examples/sparse_lr/indexed.h"
#include "examples/sparse_lr/libsvm.h"
#include "examples/sparse_lr/options.h"
#include "examples/sparse_lr/outcome.h"
#include "examples/sparse_lr/read_model.h"
#include "examples/sparse_lr/training_set.h"
#include "examples/sparse_lr/worker.h"

namespace paceline::examples {
namespace {

// One run, from the data to the report.
class Run {
 public:
  Run(const RunOptions& options, std::vector<std::string> arguments)
      : options_(options), arguments_(std::move(arguments)) {}

  // The exit code.
  int Execute() {
    if (absl::Status s = ReadData(); !s.ok()) return Fail(kProgram, s);
    const ClusterTraining training = TrainOnCluster(
        arguments_, options_, {.examples_per_epoch = train_.rows(), .epochs = options_.epochs});
    if (!training.status.ok()) return FailTraining(kProgram, training);
    outcome_.totals = training.totals;
    if (absl::Status s = ScoreModel(); !s.ok()) return Fail(kProgram, s);
    TrainAlone();
    std::fputs(FormatOutcome(options_, outcome_).c_str(), stdout);
    if (!outcome_.not_converged.empty()) {
      WriteError(absl::StrCat("sparse_lr: warning: ", outcome_.not_converged, "\n"));
    }
    if (absl::Status s = WriteFiles(); !s.ok()) return Fail(kProgram, s);
    return 0;
  }

 private:
  absl::Status ReadData() {
    absl::StatusOr<TrainingSet> train = ReadTrainingSet(options_.train, options_.scale);
    if (!train.ok()) return train.status();
    absl::StatusOr<Dataset> test = ReadLibsvm(options_.test);
    if (!test.ok()) return test.status();
    set_ = *std::move(train);
    test_ = *std::move(test);
    DivideAs(set_, &test_);
    for (const auto& [path, rows] :
         {std::pair(options_.train, train_.rows()), std::pair(options_.test, test_.rows())}) {
      if (rows == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": no examples in it"));
    }
    return absl::OkStatus();
  }

  absl::Status ScoreModel() {
    absl::StatusOr<std::vector<float>> model =
        ReadModel(options_, train_.column_count, outcome_.totals.clock_all_have);
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    outcome_.rows = train_.rows();
    outcome_.cluster = ScoreOf(train_, test_, model_, PenaltiesOf(options_));
    outcome_.cluster.seconds = outcome_.totals.seconds;
    outcome_.not_converged = WhyNotConverged(options_, train_, test_, model_);
    return absl::OkStatus();
  }

  // After the other, lest they take the cores from each other.
  void TrainAlone() {
    const auto began = std::chrono::steady_clock::now();
    const std::vector<float> model = TrainReference(train_, ReferenceOf(options_, set_.shape));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    outcome_.reference = ScoreOf(train_, test_, model, PenaltiesOf(options_));
    outcome_.reference.seconds = took.count();
  }

  absl::Status WriteFiles() const {
    if (!options_.model_out.empty()) {
      absl::Status s = WriteFile(options_.model_out, ModelText(options_, OwnWeights(set_, model_)));
      if (!s.ok()) return s;
    }
    return options_.json_out.empty() ? absl::OkStatus()
                                     : WriteFile(options_.json_out, OutcomeJson(options_, outcome_));
  }

  const RunOptions options_;
  const std::vector<std::string> arguments_;
  TrainingSet set_;
  const Dataset& train_ = set_.data;
  Dataset test_;
  std::vector<float> model_;
  Outcome outcome_;
};

int Join(const RunOptions& options) {
  const absl::StatusOr<TrainingSet> train = ReadTrainingSet(options.train, options.scale);
  if (!train.ok()) return Fail(kProgram, train.status());
  return RunJoining(kProgram, options, TrainingOf(options),
                    {.examples_per_epoch = train->data.rows(), .epochs = options.epochs});
}

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  using namespace paceline::examples;  // this file's own
  const std::variant<RunOptions, int> parsed = ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const RunOptions& options = std::get<RunOptions>(parsed);
  if (options.worker >= 0) return RunWorkerProcess(kProgram, options, TrainingOf(options));
  if (options.join) return Join(options);
  if (options.index >= 0) return RunIndexed(options);
  return Run(options, std::vector<std::string>(argv, argv + argc)).Execute();
}
