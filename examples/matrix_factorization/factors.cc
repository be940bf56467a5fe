#include "examples/matrix_factorization/factors.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "examples/lib/random.h"

namespace paceline::examples {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

float Predicted(const float* user, const float* item, float mean, size_t dim) {
  float dot = 0;
  for (size_t k = 1; k < dim; ++k) dot += user[k] * item[k];
  return mean + user[0] + item[0] + dot;
}

void Step(float error, const Steps& steps, size_t dim, float* user, float* item) {
  user[0] += steps.lr * (error - steps.reg * user[0]);
  item[0] += steps.lr * (error - steps.reg * item[0]);
  for (size_t k = 1; k < dim; ++k) {
    const float p = user[k], q = item[k];
    user[k] += steps.lr * (error * q - steps.reg * p);
    item[k] += steps.lr * (error * p - steps.reg * q);
  }
}

uint32_t NumberOf(uint32_t which, uint64_t key, std::vector<uint32_t>* numbers, std::vector<uint64_t>* keys) {
  uint32_t& number = (*numbers)[which];
  if (number == kNone) {
    number = static_cast<uint32_t>(keys->size());
    keys->push_back(key);
  }
  return number;
}

}  // namespace

double TrainOn(absl::Span<const Rating> ratings, float mean, const Steps& steps, const FactorRows& rows) {
  double squared_errors = 0;
  for (const Rating& rating : ratings) {
    float* user = rows.users.data() + rating.user * rows.dim;
    float* item = rows.items.data() + rating.item * rows.dim;
    const float error = rating.value - Predicted(user, item, mean, rows.dim);
    squared_errors += static_cast<double>(error) * error;
    Step(error, steps, rows.dim, user, item);
  }
  return squared_errors;
}

double RootMeanSquaredError(absl::Span<const Rating> ratings, const SplitRatings& split,
                            const FactorRows& rows) {
  if (ratings.empty()) return 0;
  double squared_errors = 0;
  for (const Rating& rating : ratings) {
    const float predicted = Predicted(rows.users.data() + rating.user * rows.dim,
                                      rows.items.data() + rating.item * rows.dim, split.mean, rows.dim);
    const double error = rating.value - std::clamp(predicted, split.lowest, split.highest);
    squared_errors += error * error;
  }
  return std::sqrt(squared_errors / static_cast<double>(ratings.size()));
}

std::vector<float> StartRows(uint64_t table_seed, absl::Span<const uint64_t> keys, size_t dim) {
  const uint64_t of_table = Mix64(Mix64(table_seed));
  std::vector<float> rows;
  rows.reserve(keys.size() * dim);
  for (const uint64_t key : keys) {
    Random words(Mix64(key + of_table));
    for (size_t column = 0; column < dim; ++column) {
      const double low = -kStart, high = kStart;
      rows.push_back(static_cast<float>(low + (high - low) * words.Unit()));
    }
  }
  return rows;
}

uint64_t UsersSeed(uint64_t seed) {
  return Mix64(2 * seed + 1) | 1;
}

uint64_t ItemsSeed(uint64_t seed) {
  return Mix64(2 * seed + 2) | 1;
}

RatingBatches::RatingBatches(const Ratings* ratings, const std::vector<Rating>* train)
    : ratings_(ratings),
      train_(train),
      user_numbers_(ratings->users.size(), kNone),
      item_numbers_(ratings->items.size(), kNone) {}

void RatingBatches::Build(absl::Span<const uint32_t> which, RatingBatch* batch) {
  batch->user_keys.clear();
  batch->item_keys.clear();
  batch->ratings.clear();
  for (const uint32_t i : which) {
    const Rating& rating = (*train_)[i];
    batch->ratings.push_back(
        {NumberOf(rating.user, ratings_->users[rating.user], &user_numbers_, &batch->user_keys),
         NumberOf(rating.item, ratings_->items[rating.item], &item_numbers_, &batch->item_keys),
         rating.value});
  }
  for (const uint32_t i : which) {
    user_numbers_[(*train_)[i].user] = kNone;
    item_numbers_[(*train_)[i].item] = kNone;
  }
}

absl::Status DivergenceWatch::Add(size_t ratings, double squared_errors) {
  constexpr size_t kEnough = 1000;
  constexpr double kTolerated = 4;
  ratings_ += ratings;
  squared_errors_ += squared_errors;
  const double mean = squared_errors_ / static_cast<double>(std::max<size_t>(1, ratings_));
  if (!std::isfinite(mean) || (ratings_ >= kEnough && variance_ > 0 && mean > kTolerated * variance_)) {
    return absl::InternalError(absl::StrFormat(
        "the training diverges: the mean squared error of the last %d ratings is %.3g, and that of "
        "their mean alone is %.3g; lower --lr or --batch, or raise --reg",
        ratings_, mean, variance_));
  }
  if (ratings_ >= kEnough) ratings_ = 0, squared_errors_ = 0;
  return absl::OkStatus();
}

}  // namespace paceline::examples
