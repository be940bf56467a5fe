#include "bench/consistency/runs.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/consistency/curves.h"
#include "bench/consistency/made_data.h"
#include "examples/lda/reference.h"
#include "examples/lda/worker.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/text_file.h"
#include "examples/matrix_factorization/reference.h"
#include "examples/matrix_factorization/worker.h"
#include "libs/base/status.h"
#include "libs/world/wall_clock.h"

namespace paceline::bench {
namespace {

constexpr uint64_t kDataSeed = 1;
// The reference's loss is that of one process after this share of its passes: the cluster can reach it. That
// of topics is early: later the luck of the draws decides by how much two samplers differ.
constexpr double kFactorsShare = 0.4;
constexpr double kTopicsShare = 0.25;

examples::FactorOptions FactorOptionsOf(const std::string& ratings, const RunSizes& sizes, uint64_t seed) {
  examples::FactorOptions options;
  options.ratings = ratings;
  options.rank = 6;
  options.epochs = sizes.factor_passes;
  options.batch_size = 81;  // 20 clocks a pass: a tenth of the ratings is held out
  options.lr = TrainingSpec().lr;
  options.reg = 0.05f;
  options.seed = seed;
  return options;
}

examples::LdaOptions LdaOptionsOf(const std::string& documents, const RunSizes& sizes, uint64_t seed) {
  examples::LdaOptions options;
  options.documents = documents;
  options.topics = 10;
  options.sweeps = sizes.topic_passes;
  options.seed = seed;
  return options;
}

double LossAt(const std::vector<examples::LossPoint>& passes, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(passes.size()));
  return passes[std::min(at, passes.size() - 1)].loss;
}

// The example's own, and no other, tells that the steps were too large.
bool IsDivergence(const absl::Status& status) {
  return absl::IsInternal(status) && absl::StrContains(status.message(), "the training diverges");
}

}  // namespace

const char* NameOf(TrainedJob job) {
  return job == TrainedJob::kFactors ? "matrix factorisation" : "topics (LDA)";
}

absl::Status Trainer::Prepare() {
  ABSL_RETURN_IF_ERROR(examples::WriteFile(RatingsFile(), MadeRatings({}, kDataSeed)));
  return examples::WriteFile(DocumentsFile(), MadeDocuments({.tokens = 60}, kDataSeed));
}

absl::StatusOr<TrainingRun> Trainer::Run(const TrainingSpec& spec) {
  return spec.job == TrainedJob::kFactors ? Factors(spec) : Topics(spec);
}

absl::StatusOr<TrainingRun> Trainer::Factors(const TrainingSpec& spec) {
  ABSL_ASSIGN_OR_RETURN(const Reference reference, FactorsReference(spec.seed));
  examples::FactorOptions options = FactorOptionsOf(RatingsFile(), sizes_, spec.seed);
  options.lr = spec.lr;
  return Train(spec, std::move(options), reference);
}

absl::StatusOr<TrainingRun> Trainer::Topics(const TrainingSpec& spec) {
  ABSL_ASSIGN_OR_RETURN(const Reference reference, TopicsReference(spec.seed));
  return Train(spec, LdaOptionsOf(DocumentsFile(), sizes_, spec.seed), reference);
}

template <class Options>
absl::StatusOr<TrainingRun> Trainer::Train(const TrainingSpec& spec, Options options,
                                           const Reference& reference) {
  static const std::string kProgram = "paceline-bench";
  options.workers = kTrainedWorkers;
  options.consistency = spec.consistency;
  options.coordinator = coordinator_;
  options.job = absl::StrCat("consistency-", ++runs_, "-", absl::ToUnixNanos(world::WallClock()));
  const absl::Duration each = spec.pauses == Pauses::Kind::kBeat ? 4 * sizes_.each : sizes_.each;
  options.pause = PauseOf({.kind = spec.pauses, .each = each, .slow = sizes_.slow, .seed = spec.seed});
  std::vector<examples::WorkerReport> reports(kTrainedWorkers);
  std::vector<absl::Status> ends(kTrainedWorkers);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < kTrainedWorkers; ++rank) {
      threads.emplace_back([&, rank] {
        Options own = options;
        own.worker = static_cast<int>(rank);
        ends[rank] = examples::Work(kProgram, own, /*patient=*/false, examples::TrainingOf(own),
                                    [&](const examples::WorkerReport& report) { reports[rank] = report; });
      });
    }
  }
  TrainingRun run;
  for (const absl::Status& end : ends) run.diverged = run.diverged || IsDivergence(end);
  if (run.diverged) {
    run.to_reference = kNeverSeconds;
    return run;
  }
  for (const absl::Status& end : ends) ABSL_RETURN_IF_ERROR(end);
  const examples::Totals totals = examples::Sum(reports);
  run.seconds = totals.seconds;
  run.to_reference = SecondsTo(totals.curve, reference.loss, reference.window).value_or(kNeverSeconds);
  run.loss_per_clock = AreaPerClock(totals.curve);
  run.waiting = totals.blocked_seconds / std::max(totals.worker_seconds, 1e-9);
  run.curve = totals.curve;
  run.staleness_rows = totals.staleness_rows;
  return run;
}

absl::StatusOr<Trainer::Reference> Trainer::FactorsReference(uint64_t seed) {
  Reference& known = references_[{TrainedJob::kFactors, seed}];
  if (known.window > 0) return known;
  const examples::FactorOptions options = FactorOptionsOf(RatingsFile(), sizes_, seed);
  ABSL_ASSIGN_OR_RETURN(const examples::Ratings ratings, examples::ReadRatings(options.ratings));
  const examples::SplitRatings split = examples::Split(ratings, options.held_out, seed);
  ABSL_ASSIGN_OR_RETURN(const examples::FactorReference reference,
                        examples::TrainReference(options, ratings, split));
  known = {.loss = LossAt(reference.curve, kFactorsShare), .window = split.train.size() / 4};
  return known;
}

absl::StatusOr<Trainer::Reference> Trainer::TopicsReference(uint64_t seed) {
  Reference& known = references_[{TrainedJob::kTopics, seed}];
  if (known.window > 0) return known;
  const examples::LdaOptions options = LdaOptionsOf(DocumentsFile(), sizes_, seed);
  ABSL_ASSIGN_OR_RETURN(const examples::Corpus corpus, examples::ReadDocuments(options));
  const examples::SplitDocuments split = examples::Split(corpus, options.held_out, seed);
  const examples::LdaReference reference = examples::SampleReference(options, corpus, split.train);
  // A sweep, as the documents of its clocks are others each time.
  known = {.loss = LossAt(reference.curve, kTopicsShare), .window = examples::TokensOf(corpus, split.train)};
  return known;
}

}  // namespace paceline::bench
