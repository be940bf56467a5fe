#include "examples/lda/worker.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "examples/lda/batches.h"
#include "examples/lda/token_topics.h"
#include "examples/lib/train_batches.h"

namespace paceline::examples {
namespace {

const uint64_t kTotalsKey = 0;

absl::StatusOr<Table> OpenCounts(Client& client, const LdaOptions& options, const char* name) {
  return client.OpenOrCreate(
      name, Sparse{.dim = options.topics, .rule = Add{}, .consistency = options.consistency});
}

// The newest rows are the right ones: whoever had the document before has committed what it pushed.
absl::StatusOr<Table> OpenTokens(Client& client) {
  return client.OpenOrCreate(kTokensTable,
                             Sparse{.dim = TokenTopics::kTokens, .rule = Assign{}, .consistency = Asp{}});
}

class Sampling {
 public:
  Sampling(const LdaOptions& options, JobWorker& worker) : options_(options), worker_(worker) {}

  absl::Status Run() {
    absl::StatusOr<Corpus> corpus = ReadDocuments(options_);
    if (!corpus.ok()) return corpus.status();
    corpus_ = *std::move(corpus);
    documents_ = Split(corpus_, options_.held_out, options_.seed).train;
    if (absl::Status s = worker_.Join(); !s.ok()) return s;
    if (absl::Status s = Open(kWordsTable, &words_); !s.ok()) return s;
    if (absl::Status s = Open(kTotalsTable, &totals_); !s.ok()) return s;
    sampler_.emplace(ShapeOf(options_, corpus_), options_.seed + worker_.client().rank());
    return options_.by_queue() ? SampleQueue() : SampleSplit();
  }

 private:
  absl::Status Open(const char* name, std::optional<Table>* opened) {
    absl::StatusOr<Table> table = OpenCounts(worker_.client(), options_, name);
    if (table.ok()) *opened = *table;
    return table.status();
  }

  // -- a fixed split --

  absl::Status SampleSplit() {
    if (worker_.client().clock() != 0) {
      return absl::FailedPreconditionError(
          "the job has begun already, and a worker's documents are its own: give a --job of another name, or "
          "share the documents by --work queue");
    }
    batches_ = BatchesOf(corpus_, documents_, options_.workers, worker_.client().rank(), options_.batches,
                         options_.topics, options_.seed);
    const auto sweeps = static_cast<size_t>(options_.sweeps);
    worker_.Begin(1 + sweeps * batches_.size(), sweeps);
    if (absl::Status s = CountFirstTopics(); !s.ok()) return s;
    for (size_t sweep = 0; sweep < sweeps; ++sweep) {
      for (DocumentBatch& batch : batches_) {
        if (absl::Status s = SampleOwn(&batch); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
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

  absl::Status SampleOwn(DocumentBatch* batch) {
    PullOptions pull;
    if (worker_.client().clock() <= LastClockThatMayMissFirstTopics()) pull.min_clock = 1;
    if (absl::Status s = PullCounts(*batch, pull); !s.ok()) return s;
    worker_.Pause();
    const double nats = batch->Resample(&*sampler_, counts());
    PushChanges(*batch);
    return worker_.EndClock(worker_.client().clock(), batch->rows.size(), nats);
  }

  // All documents must be counted before any is sampled. The consistency promises that of the clocks after
  // this one.
  uint64_t LastClockThatMayMissFirstTopics() const {
    if (const Ssp* ssp = std::get_if<Ssp>(&options_.consistency)) return ssp->staleness;
    if (const Essp* essp = std::get_if<Essp>(&options_.consistency)) return essp->staleness;
    return std::holds_alternative<Bsp>(options_.consistency) ? 0 : batches_.size();
  }

  // -- a queue --

  absl::Status SampleQueue() {
    absl::StatusOr<Table> tokens = OpenTokens(worker_.client());
    if (!tokens.ok()) return tokens.status();
    tokens_ = *std::move(tokens);
    const TokenTopics places(corpus_, documents_);
    BatchBuilder builder(corpus_, options_.topics, options_.seed);
    return TrainBatches(
        worker_, QueueOf(options_, documents_.size()),
        [&](const TrainingBatch& next) -> absl::StatusOr<BatchLoss> {
          const size_t begin = next.rows.front(), end = next.rows.back() + size_t{1};
          DocumentBatch batch = builder.Build(absl::MakeConstSpan(documents_).subspan(begin, end - begin));
          return SampleShared(places.Keys(begin, end), /*counts_only=*/next.epoch == 0, &batch);
        });
  }

  // Goes on from the topics that the tokens have. Counts those that have none; all have one after epoch 0.
  absl::StatusOr<BatchLoss> SampleShared(absl::Span<const uint64_t> places, bool counts_only,
                                         DocumentBatch* batch) {
    Future<std::vector<float>> topics_coming = tokens_->PullAsync(places);
    if (absl::Status s = PullCounts(*batch, {}); !s.ok()) return s;
    const absl::StatusOr<std::vector<float>> topics = worker_.Await(std::move(topics_coming));
    if (!topics.ok()) return topics.status();
    if (absl::Status s = TokenTopics::Take(*topics, options_.topics, batch, counts()); !s.ok()) return s;
    BatchLoss loss(0, 0);
    if (!counts_only) {
      worker_.Pause();
      loss = BatchLoss(batch->Resample(&*sampler_, counts()), batch->rows.size());
    }
    worker_.Push(*tokens_, places, TokenTopics::RowsOf(*batch));
    PushChanges(*batch);
    return loss;
  }

  // -- the counts of a batch --

  absl::Status PullCounts(const DocumentBatch& batch, const PullOptions& pull) {
    Future<std::vector<float>> words_coming = words_->PullAsync(batch.keys, pull);
    Future<std::vector<float>> totals_coming = totals_->PullAsync({kTotalsKey}, pull);
    absl::StatusOr<std::vector<float>> words = worker_.Await(std::move(words_coming));
    if (!words.ok()) return words.status();
    absl::StatusOr<std::vector<float>> totals = worker_.Await(std::move(totals_coming));
    if (!totals.ok()) return totals.status();
    words_before_ = *words;
    totals_before_ = *totals;
    words_now_ = *std::move(words);
    totals_now_ = *std::move(totals);
    return absl::OkStatus();
  }
  TopicCounts counts() { return {absl::MakeSpan(words_now_), absl::MakeSpan(totals_now_)}; }

  // Of words whose counts did not change, nothing.
  void PushChanges(const DocumentBatch& batch) {
    const size_t topics = options_.topics;
    keys_.clear();
    changes_.clear();
    for (size_t i = 0; i < batch.keys.size(); ++i) {
      const auto now = absl::MakeConstSpan(words_now_).subspan(i * topics, topics);
      const auto before = absl::MakeConstSpan(words_before_).subspan(i * topics, topics);
      if (now == before) continue;
      keys_.push_back(batch.keys[i]);
      for (size_t k = 0; k < topics; ++k) changes_.push_back(now[k] - before[k]);
    }
    for (size_t k = 0; k < topics; ++k) totals_now_[k] -= totals_before_[k];
    worker_.Push(*words_, keys_, changes_);
    worker_.Push(*totals_, {kTotalsKey}, totals_now_);
  }

  const LdaOptions& options_;
  JobWorker& worker_;
  Corpus corpus_;
  std::vector<uint32_t> documents_;  // to sample
  std::optional<TopicSampler> sampler_;
  std::optional<Table> words_, totals_, tokens_;
  std::vector<DocumentBatch> batches_;  // of a fixed split
  // Of the batch's words, and of all, as they were pulled, and as the batch leaves them.
  std::vector<float> words_before_, totals_before_, words_now_, totals_now_;
  std::vector<uint64_t> keys_;
  std::vector<float> changes_;
};

}  // namespace

Training TrainingOf(const LdaOptions& options) {
  return [&options](JobWorker& worker) { return Sampling(options, worker).Run(); };
}

absl::Status RepairCounts(const LdaOptions& options, absl::Span<const float> words,
                          absl::Span<const float> totals) {
  LdaOptions joining = options;  // only workers push to tables that are folded
  joining.join = true;
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(WorkerClient(kLdaProgram, joining));
  if (!client.ok()) return client.status();
  absl::StatusOr<Table> words_table = OpenCounts(**client, options, kWordsTable);
  if (!words_table.ok()) return words_table.status();
  absl::StatusOr<Table> totals_table = OpenCounts(**client, options, kTotalsTable);
  if (!totals_table.ok()) return totals_table.status();
  for (uint64_t word = 0; word * options.topics < words.size(); ++word) {
    const absl::Span<const float> row = words.subspan(word * options.topics, options.topics);
    const bool changes = std::any_of(row.begin(), row.end(), [](float by) { return by != 0; });
    if (changes) (void)words_table->PushAsync({word}, row);
  }
  (void)totals_table->PushAsync({kTotalsKey}, totals);
  return (*client)->Finish();  // which tells what went wrong with any push
}

}  // namespace paceline::examples
