// Latent Dirichlet allocation by collapsed Gibbs sampling, by worker processes over a Paceline cluster, and
// the same in one process beside it. `lda --help` says how to use it.

#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "examples/lda/options.h"
#include "examples/lda/outcome.h"
#include "examples/lda/reference.h"
#include "examples/lda/token_topics.h"
#include "examples/lda/worker.h"
#include "examples/lib/cluster_training.h"
#include "examples/lib/console.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/read_rows.h"
#include "examples/lib/text_file.h"

namespace paceline::examples {
namespace {

constexpr size_t kTopWords = 20;

std::vector<float> Difference(const std::vector<float>& to, const std::vector<float>& from) {
  std::vector<float> by(to.size());
  for (size_t i = 0; i < to.size(); ++i) by[i] = to[i] - from[i];
  return by;
}

// One run, from the documents to the report.
class Run {
 public:
  Run(const LdaOptions& options, std::vector<std::string> arguments)
      : options_(options), arguments_(std::move(arguments)) {}

  // The exit code.
  int Execute() {
    if (absl::Status s = ReadData(); !s.ok()) return Fail(kLdaProgram, s);
    const Progress::Options shown = {.examples_per_epoch = outcome_.tokens,
                                     .epochs = options_.sweeps,
                                     .epoch = "sweep",
                                     .examples = "tokens"};
    if (options_.join) return RunJoining(kLdaProgram, options_, TrainingOf(options_), shown);
    const ClusterTraining training = TrainOnCluster(
        arguments_, options_, shown,
        QueuedWork{.examples = split_.train.size(), .passes = 1 + static_cast<uint64_t>(options_.sweeps)});
    if (!training.status.ok()) return FailTraining(kLdaProgram, training);
    outcome_.totals = training.totals;
    if (absl::Status s = ReadModel(); !s.ok()) return Fail(kLdaProgram, s);
    Measure();
    std::fputs(FormatOutcome(options_, outcome_).c_str(), stdout);
    const absl::Status written = WriteFiles();
    return written.ok() ? 0 : Fail(kLdaProgram, written);
  }

 private:
  absl::Status ReadData() {
    absl::StatusOr<Corpus> corpus = ReadDocuments(options_);
    if (!corpus.ok()) return corpus.status();
    corpus_ = *std::move(corpus);
    split_ = Split(corpus_, options_.held_out, options_.seed);
    outcome_.tokens = TokensOf(corpus_, split_.train);
    if (options_.vocabulary.empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> words = ReadFile(options_.vocabulary);
    if (words.ok()) vocabulary_ = absl::StrSplit(*words, '\n');
    return words.status();
  }

  // With every change of every worker: then the counts are those of all tokens.
  absl::Status ReadModel() {
    const ClientOptions reader = ReaderClient(kLdaProgram, options_);
    if (absl::Status s = ReadCounts(reader); !s.ok()) return s;
    if (options_.by_queue()) {
      if (absl::Status s = Repair(reader); !s.ok()) return s;
    }
    return CheckCounts(model_, outcome_.tokens);
  }

  absl::Status ReadCounts(const ClientOptions& reader) {
    const uint64_t clock = outcome_.totals.clock_all_have;
    absl::StatusOr<std::vector<float>> words = ReadFirstRows(reader, kWordsTable, corpus_.words, clock);
    if (!words.ok()) return words.status();
    absl::StatusOr<std::vector<float>> totals = ReadFirstRows(reader, kTotalsTable, 1, clock);
    if (!totals.ok()) return totals.status();
    model_ = {.shape = ShapeOf(options_, corpus_), .words = *std::move(words), .totals = *std::move(totals)};
    return absl::OkStatus();
  }

  // A worker that was killed may have pushed a part of what it changed. The tokens have their topics, so the
  // counts are made to follow these.
  absl::Status Repair(const ClientOptions& reader) {
    const uint64_t rows = TokenTopics(corpus_, split_.train).rows();
    const absl::StatusOr<std::vector<float>> topics =
        ReadFirstRows(reader, kTokensTable, rows, outcome_.totals.clock_all_have);
    if (!topics.ok()) return topics.status();
    const absl::StatusOr<TopicModel> counted = CountTokens(model_.shape, corpus_, split_.train, *topics);
    if (!counted.ok()) return counted.status();
    outcome_.tokens_repaired = TokensApart(model_, *counted);
    if (*outcome_.tokens_repaired == 0) return absl::OkStatus();
    if (absl::Status s = RepairCounts(options_, Difference(counted->words, model_.words),
                                      Difference(counted->totals, model_.totals));
        !s.ok()) {
      return s;
    }
    if (absl::Status s = ReadCounts(reader); !s.ok()) return s;
    if (TokensApart(model_, *counted) == 0) return absl::OkStatus();
    return absl::DataLossError("the counts are not those of the tokens' topics, though they were repaired");
  }

  void Measure() {
    const LdaReference reference = SampleReference(options_, corpus_, split_.train);
    outcome_.reference_curve = reference.curve;
    outcome_.reference_seconds = reference.curve.back().seconds;
    outcome_.perplexity = CompletionPerplexity(model_, corpus_, split_.test, options_.seed);
    outcome_.reference_perplexity =
        CompletionPerplexity(reference.model, corpus_, split_.test, options_.seed);
    outcome_.unigram_perplexity =
        UnigramPerplexity(model_.shape, corpus_, split_.train, split_.test, options_.seed);
  }

  absl::Status WriteFiles() const {
    if (!options_.topics_out.empty()) {
      absl::Status s = WriteFile(options_.topics_out, TopicsText(model_, vocabulary_, kTopWords));
      if (!s.ok()) return s;
    }
    return options_.json_out.empty() ? absl::OkStatus()
                                     : WriteFile(options_.json_out, OutcomeJson(options_, outcome_));
  }

  const LdaOptions options_;
  const std::vector<std::string> arguments_;
  Corpus corpus_;
  SplitDocuments split_;
  std::vector<std::string> vocabulary_;
  TopicModel model_;
  LdaOutcome outcome_;
};

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  using namespace paceline::examples;  // this file's own
  const std::variant<LdaOptions, int> parsed = ParseLdaOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const LdaOptions& options = std::get<LdaOptions>(parsed);
  if (options.worker >= 0) return RunWorkerProcess(kLdaProgram, options, TrainingOf(options));
  return Run(options, std::vector<std::string>(argv, argv + argc)).Execute();
}
