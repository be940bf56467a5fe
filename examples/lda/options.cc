#include "examples/lda/options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "examples/lib/console.h"

namespace paceline::examples {
namespace {

constexpr char kAbout[] =
    "Finds the topics of documents, latent Dirichlet allocation, by collapsed Gibbs sampling: worker "
    "processes that "
    "share the counts of words by topic on a Paceline cluster. Then reads the counts back, measures how well "
    "they "
    "predict words of documents that were held out, and compares that with the same sampling in one "
    "process.\n"
    "Data is what lda-c reads, a line `N id:count …` a document. A cluster for one run:\n"
    "  paceline up --shards 3 -- lda --docs FILE";

constexpr size_t kMostCounts = size_t{1} << 29;  // 2 GiB, in the process that reads the model

void AddOptions(CLI::App* app, LdaOptions* o) {
  app->add_option("--docs", o->documents, "Documents, to sample and to hold out")
      ->type_name("FILE")
      ->required()
      ->check(ExistingFile());
  AddJobOptions(app, "a batch of documents of every worker", o);
  AddWorkOptions(app, o);
  app->add_option("--topics", o->topics, "Topics to find")->type_name("K")->check(Within(1, 16'382));
  app->add_option("--sweeps", o->sweeps, "Passes over the documents")
      ->type_name("N")
      ->check(Within(1, 100'000));
  app->add_option(
         "--batches", o->batches,
         "Parts of a worker's documents: before each it reads the counts, and after it adds what changed. "
         "With --work queue --workers times as many parts of all documents")
      ->type_name("N")
      ->check(Within(1, 100'000));
  app->add_option("--alpha", o->alpha, "Prior of a topic in a document")->type_name("X")->check(Positive());
  app->add_option("--beta", o->beta, "Prior of a word in a topic")->type_name("X")->check(Positive());
  app->add_option("--held-out", o->held_out, "Share of the documents that is held out, to measure by")
      ->type_name("X")
      ->check(CLI::Range(0.0, 0.9).description(""));
  app->add_option("--topics-out", o->topics_out,
                  "Write the topics' most frequent words to this file, as text")
      ->type_name("FILE");
  app->add_option("--vocabulary", o->vocabulary, "The words, one a line, from id 0 on, for --topics-out")
      ->type_name("FILE")
      ->check(ExistingFile());
}

}  // namespace

std::variant<LdaOptions, int> ParseLdaOptions(int argc, char** argv) {
  LdaOptions options;
  CLI::App app(kAbout, kLdaProgram);
  app.option_defaults()->always_capture_default();
  AddOptions(&app, &options);
  if (const std::optional<int> exit_code = ParseArguments(&app, argc, argv)) return *exit_code;
  absl::Status status = CompleteJobOptions(kLdaProgram, &options);
  if (status.ok()) status = CheckFolderOf(options.topics_out, "--topics-out");
  if (status.ok()) return options;
  Fail(kLdaProgram, status);
  return kUsageError;
}

absl::StatusOr<Corpus> ReadDocuments(const LdaOptions& options) {
  absl::StatusOr<Corpus> corpus = ReadCorpus(options.documents);
  if (!corpus.ok()) return corpus.status();
  if (corpus->documents() < 2 || corpus->tokens.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.documents,
                                                   ": expected at least two documents with words, found ",
                                                   corpus->documents(), " with ", corpus->tokens.size()));
  }
  if (size_t{corpus->words} * options.topics > kMostCounts) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.documents, ": word ", corpus->words - 1, " with ", options.topics,
                     " topics asks for more than ", kMostCounts,
                     " counts; number the words without gaps, or find fewer topics"));
  }
  return corpus;
}

ScheduleOptions QueueOf(const LdaOptions& options, size_t documents) {
  const size_t batches = size_t{options.workers} * options.batches;
  return {.examples = documents,
          .batch_size = std::max<size_t>(1, (documents + batches - 1) / batches),
          .workers = options.workers,
          .epochs = 1 + options.sweeps,
          .seed = options.seed,
          .in_order = true};
}

TopicShape ShapeOf(const LdaOptions& options, const Corpus& corpus) {
  return {.topics = options.topics, .words = corpus.words, .alpha = options.alpha, .beta = options.beta};
}

}  // namespace paceline::examples
