#include "examples/lda/worker.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "examples/lda/batches.h"

namespace paceline::examples {
namespace {

const uint64_t kTotalsKey = 0;

class Sampling {
 public:
  Sampling(const LdaOptions& options, JobWorker& worker) : options_(options), worker_(worker) {}

  absl::Status Run() {
    const absl::StatusOr<Corpus> corpus = ReadDocuments(options_);
    if (!corpus.ok()) return corpus.status();
    if (absl::Status s = worker_.Join(); !s.ok()) return s;
    if (worker_.client().clock() != 0) {
      return absl::FailedPreconditionError(
          "the job has begun already, and a worker's documents are its own: give a --job of another name");
    }
    if (absl::Status s = Open(kWordsTable, &words_); !s.ok()) return s;
    if (absl::Status s = Open(kTotalsTable, &totals_); !s.ok()) return s;
    batches_ = BatchesOf(*corpus, Split(*corpus, options_.held_out, options_.seed).train, options_.workers,
                         worker_.client().rank(), options_.batches, options_.topics, options_.seed);
    const auto sweeps = static_cast<size_t>(options_.sweeps);
    worker_.Begin(1 + sweeps * batches_.size(), sweeps);
    if (absl::Status s = CountFirstTopics(); !s.ok()) return s;
    TopicSampler sampler(ShapeOf(options_, *corpus), options_.seed + worker_.client().rank());
    for (size_t sweep = 0; sweep < sweeps; ++sweep) {
      for (DocumentBatch& batch : batches_) {
        if (absl::Status s = Sample(&sampler, &batch); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Open(const char* name, std::optional<Table>* opened) {
    absl::StatusOr<Table> table = worker_.client().OpenOrCreate(
        name, Sparse{.dim = options_.topics, .rule = Add{}, .consistency = options_.consistency});
    if (table.ok()) *opened = *table;
    return table.status();
  }

  absl::Status CountFirstTopics() {
    for (const DocumentBatch& batch : batches_) {
      std::vector<float> words(batch.keys.size() * options_.topics), totals(options_.topics);
      Count(batch.rows, batch.topics, options_.topics, {absl::MakeSpan(words), absl::MakeSpan(totals)});
      worker_.Push(*words_, batch.keys, words);
      worker_.Push(*totals_, {kTotalsKey}, totals);
    }
    return worker_.EndClock(worker_.client().clock(), 0, 0);
  }

  absl::Status Sample(TopicSampler* sampler, DocumentBatch* batch) {
    PullOptions pull;
    if (worker_.client().clock() <= LastClockThatMayMissFirstTopics()) pull.min_clock = 1;
    Future<std::vector<float>> words_coming = words_->PullAsync(batch->keys, pull);
    Future<std::vector<float>> totals_coming = totals_->PullAsync({kTotalsKey}, pull);
    absl::StatusOr<std::vector<float>> words = worker_.Await(std::move(words_coming));
    if (!words.ok()) return words.status();
    absl::StatusOr<std::vector<float>> totals = worker_.Await(std::move(totals_coming));
    if (!totals.ok()) return totals.status();
    worker_.Pause();
    words_before_ = *words;
    totals_before_ = *totals;
    const double nats = batch->Resample(sampler, {absl::MakeSpan(*words), absl::MakeSpan(*totals)});
    PushChanges(*batch, *words, *totals);
    return worker_.EndClock(worker_.client().clock(), batch->rows.size(), nats);
  }

  // All documents must be counted before any is sampled. The consistency promises that of the clocks after
  // this one.
  uint64_t LastClockThatMayMissFirstTopics() const {
    if (const Ssp* ssp = std::get_if<Ssp>(&options_.consistency)) return ssp->staleness;
    if (const Essp* essp = std::get_if<Essp>(&options_.consistency)) return essp->staleness;
    return std::holds_alternative<Bsp>(options_.consistency) ? 0 : batches_.size();
  }

  // Of words whose counts did not change, nothing.
  void PushChanges(const DocumentBatch& batch, absl::Span<const float> words,
                   absl::Span<const float> totals) {
    const size_t topics = options_.topics;
    keys_.clear();
    changes_.clear();
    for (size_t i = 0; i < batch.keys.size(); ++i) {
      const absl::Span<const float> now = words.subspan(i * topics, topics);
      const absl::Span<const float> before = absl::MakeConstSpan(words_before_).subspan(i * topics, topics);
      if (now == before) continue;
      keys_.push_back(batch.keys[i]);
      for (size_t k = 0; k < topics; ++k) changes_.push_back(now[k] - before[k]);
    }
    for (size_t k = 0; k < topics; ++k) totals_before_[k] = totals[k] - totals_before_[k];
    worker_.Push(*words_, keys_, changes_);
    worker_.Push(*totals_, {kTotalsKey}, totals_before_);
  }

  const LdaOptions& options_;
  JobWorker& worker_;
  std::optional<Table> words_, totals_;
  std::vector<DocumentBatch> batches_;
  std::vector<float> words_before_, totals_before_, changes_;
  std::vector<uint64_t> keys_;
};

}  // namespace

Training TrainingOf(const LdaOptions& options) {
  return [&options](JobWorker& worker) { return Sampling(options, worker).Run(); };
}

}  // namespace paceline::examples
