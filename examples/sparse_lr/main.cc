// Sparse logistic regression with L1, trained by worker processes over a Paceline cluster, and the same in
// one process beside it. `sparse_lr --help` says how to use it.

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/sparse_lr/ftrl_reference.h"
#include "examples/sparse_lr/indexed.h"
#include "examples/sparse_lr/libsvm.h"
#include "examples/sparse_lr/options.h"
#include "examples/sparse_lr/outcome.h"
#include "examples/sparse_lr/progress.h"
#include "examples/sparse_lr/read_model.h"
#include "examples/sparse_lr/steady_now.h"
#include "examples/sparse_lr/totals.h"
#include "examples/sparse_lr/training_set.h"
#include "examples/sparse_lr/worker.h"
#include "examples/sparse_lr/worker_group.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

// Columns of the terminal that standard error is, 0 if it is none.
int TerminalWidth() {
  winsize size = {};
  if (isatty(STDERR_FILENO) == 0) return 0;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void WriteError(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int Fail(const absl::Status& status) {
  WriteError(absl::StrCat("sparse_lr: ", status.message(), "\n"));
  return 1;
}

// One run, from the data to the report.
class Run {
 public:
  Run(const RunOptions& options, std::vector<std::string> arguments)
      : options_(options), arguments_(std::move(arguments)) {}

  // The exit code.
  int Execute() {
    if (absl::Status s = ReadData(); !s.ok()) return Fail(s);
    if (absl::Status s = TrainOnCluster(); !s.ok()) {
      Fail(s);
      return signal_ != 0 ? 128 + signal_ : 1;
    }
    if (absl::Status s = ScoreModel(); !s.ok()) return Fail(s);
    TrainAlone();
    std::fputs(FormatOutcome(options_, outcome_).c_str(), stdout);
    if (!outcome_.not_converged.empty()) {
      WriteError(absl::StrCat("sparse_lr: warning: ", outcome_.not_converged, "\n"));
    }
    if (absl::Status s = WriteFiles(); !s.ok()) return Fail(s);
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

  absl::Status TrainOnCluster() {
    absl::StatusOr<std::unique_ptr<WorkerGroup>> group =
        WorkerGroup::Start(arguments_, options_.job, options_.workers);
    if (!group.ok()) return group.status();
    Progress progress({.examples_per_epoch = train_.rows(),
                       .epochs = options_.epochs,
                       .workers = options_.workers,
                       .width = TerminalWidth()},
                      WriteError);
    absl::Status status;
    while (status.ok() && !(*group)->done()) {
      status = (*group)->Wait(kLookEvery);
      if (const absl::Time now = SteadyNow(); now >= next_look_ || (*group)->done()) {
        progress.Show(Sum((*group)->reports()), now);
        next_look_ = now + kLookEvery;
      }
    }
    progress.End();
    signal_ = (*group)->signal();
    outcome_.totals = Sum((*group)->reports());
    return status;
  }

  absl::Status ScoreModel() {
    absl::StatusOr<std::vector<float>> model =
        ReadModel(options_, train_.column_count, outcome_.totals.clock_all_have);
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    outcome_.examples = train_.rows() * static_cast<uint64_t>(options_.epochs);
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
  int signal_ = 0;
  absl::Time next_look_ = absl::InfinitePast();
};

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  using namespace paceline::examples;  // this file's own
  const std::variant<RunOptions, int> parsed = ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const RunOptions& options = std::get<RunOptions>(parsed);
  if (options.worker >= 0) return RunWorker(options);
  if (options.index >= 0) return RunIndexed(options);
  return Run(options, std::vector<std::string>(argv, argv + argc)).Execute();
}
