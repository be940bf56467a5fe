#include "examples/matrix_factorization/worker.h"

#include <optional>
#include <vector>

#include "examples/lib/train_batches.h"
#include "examples/matrix_factorization/factors.h"
#include "examples/matrix_factorization/ratings.h"

namespace paceline::examples {
namespace {

// A table's rows of one batch: as they were pulled, and as the batch leaves them.
class PulledRows {
 public:
  void Set(std::vector<float> pulled) {
    moved_ = pulled;
    pulled_ = std::move(pulled);
  }
  absl::Span<float> rows() { return absl::MakeSpan(moved_); }
  absl::Span<const float> Moves() {
    for (size_t i = 0; i < moved_.size(); ++i) moved_[i] -= pulled_[i];
    return moved_;
  }

 private:
  std::vector<float> pulled_, moved_;
};

class Trainer {
 public:
  Trainer(const FactorOptions& options, JobWorker& worker) : options_(options), worker_(worker) {}

  absl::Status Run() {
    absl::StatusOr<Ratings> ratings = ReadRatings(options_.ratings);
    if (!ratings.ok()) return ratings.status();
    const SplitRatings split = Split(*ratings, options_.held_out, options_.seed);
    if (absl::Status s = worker_.Join(); !s.ok()) return s;
    if (absl::Status s = Open(kUsersTable, UsersSeed(options_.seed), &users_); !s.ok()) return s;
    if (absl::Status s = Open(kItemsTable, ItemsSeed(options_.seed), &items_); !s.ok()) return s;
    return Train(*ratings, split);
  }

 private:
  absl::Status Open(const char* name, uint64_t seed, std::optional<Table>* opened) {
    absl::StatusOr<Table> table =
        worker_.client().OpenOrCreate(name, Sparse{.dim = static_cast<uint32_t>(options_.dim()),
                                                   .init = Uniform{-kStart, kStart},
                                                   .rule = Add{},
                                                   .consistency = options_.consistency,
                                                   .seed = seed,
                                                   .link_filters = options_.link_filters});
    if (table.ok()) *opened = *table;
    return table.status();
  }

  absl::Status Train(const Ratings& ratings, const SplitRatings& split) {
    RatingBatches batches(&ratings, &split.train);
    DivergenceWatch watch(split.variance);
    RatingBatch batch;
    return TrainBatches(worker_,
                        {.examples = split.train.size(),
                         .batch_size = options_.batch_size,
                         .workers = options_.workers,
                         .epochs = options_.epochs,
                         .seed = options_.seed},
                        [&](const TrainingBatch& next) -> absl::StatusOr<double> {
                          batches.Build(next.rows, &batch);
                          if (absl::Status s = Pull(batch); !s.ok()) return s;
                          worker_.Pause();
                          const FactorRows rows = {user_rows_.rows(), item_rows_.rows(), options_.dim()};
                          const double loss =
                              TrainOn(batch.ratings, split.mean, StepsOf(options_, next.epoch), rows);
                          if (absl::Status s = watch.Add(batch.ratings.size(), loss); !s.ok()) return s;
                          worker_.Push(*users_, batch.user_keys, user_rows_.Moves());
                          worker_.Push(*items_, batch.item_keys, item_rows_.Moves());
                          return loss;
                        });
  }

  absl::Status Pull(const RatingBatch& batch) {
    Future<std::vector<float>> users_coming = users_->PullAsync(batch.user_keys);
    Future<std::vector<float>> items_coming = items_->PullAsync(batch.item_keys);
    absl::StatusOr<std::vector<float>> users = worker_.Await(std::move(users_coming));
    if (!users.ok()) return users.status();
    absl::StatusOr<std::vector<float>> items = worker_.Await(std::move(items_coming));
    if (!items.ok()) return items.status();
    user_rows_.Set(*std::move(users));
    item_rows_.Set(*std::move(items));
    return absl::OkStatus();
  }

  const FactorOptions& options_;
  JobWorker& worker_;
  std::optional<Table> users_, items_;
  PulledRows user_rows_, item_rows_;
};

}  // namespace

Training TrainingOf(const FactorOptions& options) {
  return [&options](JobWorker& worker) { return Trainer(options, worker).Run(); };
}

}  // namespace paceline::examples
