#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "examples/matrix_factorization/ratings.h"

namespace paceline::examples {

// The arithmetic of matrix factorisation by stochastic gradient descent, the same for the job's workers and
// for the reference in one process (Koren, Bell, Volinsky: Matrix Factorization Techniques for Recommender
// Systems. Computer 42, 2009). A rating of user u for item i is predicted as mean + b_u + b_i + p_u·q_i, and
//
//   (rating - prediction)² + reg · (b_u² + b_i² + |p_u|² + |q_i|²)
//
// is minimised over all ratings. A row is a bias and then `rank` factors: rank + 1 values.

// One rating moves its two rows by `lr` times half the slope of that.
struct Steps {
  float lr = 0.02f;
  float reg = 0.1f;
};

// Rows of users and items, one after the other, in the order of their numbers. Not owned.
struct FactorRows {
  absl::Span<float> users;
  absl::Span<float> items;
  size_t dim = 0;  // of a row: rank + 1
};

// Goes through the ratings, in their order: each sees the rows as the one before has left them. Returns the
// sum of the squared errors of the predictions, each before its own step. About 2 ns a factor.
double TrainOn(absl::Span<const Rating> ratings, float mean, const Steps& steps, const FactorRows& rows);

// The root of the mean squared error of predictions, which are cut to where the ratings of `split` lie. 0
// without ratings.
double RootMeanSquaredError(absl::Span<const Rating> ratings, const SplitRatings& split,
                            const FactorRows& rows);

// Where the factors start, evenly distributed between -kStart and kStart: the initialiser Uniform of a table
// of this seed. Row after row, of `keys`, each of `dim` values (docs/rules.md, "Initialisers").
constexpr float kStart = 0.1f;
std::vector<float> StartRows(uint64_t table_seed, absl::Span<const uint64_t> keys, size_t dim);

// Seeds of the two tables in a run of `seed`: neither is 0, which would leave the choice to the cluster.
uint64_t UsersSeed(uint64_t seed);
uint64_t ItemsSeed(uint64_t seed);

// A batch of ratings whose users and items are numbered anew, as they occur in it: what is pulled and pushed.
struct RatingBatch {
  std::vector<uint64_t> user_keys;  // the users' ids, by their numbers in the batch
  std::vector<uint64_t> item_keys;
  std::vector<Rating> ratings;
};

// Makes batches of one set of ratings. Keeps 4 bytes a user and an item. For one thread.
class RatingBatches {
 public:
  // Not owned; must outlive the object.
  RatingBatches(const Ratings* ratings, const std::vector<Rating>* train);

  // Replaces *batch by these ratings of `train`, in this order. Reuses its memory.
  void Build(absl::Span<const uint32_t> which, RatingBatch* batch);

 private:
  const Ratings* ratings_;
  const std::vector<Rating>* train_;
  std::vector<uint32_t> user_numbers_;  // in the batch; kNone between calls
  std::vector<uint32_t> item_numbers_;
};

// Notices early that a training goes astray: the errors are far beyond those of the mean alone.
class DivergenceWatch {
 public:
  explicit DivergenceWatch(double variance) : variance_(variance) {}

  // Of so many further ratings. An error says what to do.
  absl::Status Add(size_t ratings, double squared_errors);

 private:
  double variance_;
  size_t ratings_ = 0;  // since it was last looked
  double squared_errors_ = 0;
};

}  // namespace paceline::examples
