#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "examples/sparse_lr/libsvm.h"

namespace paceline::examples {

// The arithmetic of L1 logistic regression, the same for the distributed job's workers and for the
// single-process reference. Labels y are 0 or 1, the model is p(x) = 1 / (1 + exp(-w·x)) with one weight a
// column and no separate intercept, the loss of an example is -y log p - (1 - y) log(1 - p) in nats.

// A batch of rows whose columns are renumbered 0 .. keys.size() - 1, so that weights and gradients are
// short dense arrays in the order of `keys`: what is pulled and pushed for this batch.
struct Batch {
  std::vector<uint64_t> keys;       // the columns that occur, ascending, each once
  std::vector<uint32_t> row_begin;  // rows() + 1 positions in `local` and `values`
  std::vector<uint32_t> local;      // per non-zero, its column's index in `keys`
  std::vector<float> values;        // per non-zero
  std::vector<float> labels;        // per row

  size_t rows() const { return labels.size(); }
};

// Makes batches of one dataset. Keeps 4 bytes of scratch a column, so columns should not run into the
// billions. For one thread.
class BatchBuilder {
 public:
  // `data` is not owned and must outlive the builder.
  explicit BatchBuilder(const Dataset* data);

  // Replaces *batch by the given rows of the dataset, in that order; a row may be named twice. All must be
  // below data->rows(). Reuses the batch's memory. Costs a few ns a non-zero of the rows, plus a sweep
  // over a bit a column.
  void Build(absl::Span<const uint32_t> rows, Batch* batch);

 private:
  void CopyRows(absl::Span<const uint32_t> rows, Batch* batch);
  void NumberColumns(Batch* batch);

  const Dataset* data_;
  std::vector<uint64_t> present_;  // a bit a column; all clear between calls
  std::vector<uint32_t> index_;    // of each column that the batch has, in batch->keys
};

// Sets gradient[i] to the sum over the batch's examples of (p - y)·x for keys[i], and returns the sum (not
// the mean) of the examples' losses, both at `weights`. Both spans are in the order of keys, keys.size()
// long.
double ComputeGradient(const Batch& batch, absl::Span<const float> weights, absl::Span<float> gradient);

// How well a model does on a dataset.
struct Metrics {
  double log_loss = 0;  // mean over the rows, nats
  double auc = 0;       // area under the ROC curve, a tie counts half; 0.5 when a class is missing
  double accuracy = 0;  // share of rows with (p > 0.5) == (y == 1)
};

// `weights` is indexed by column; columns beyond its end have weight 0. All metrics are 0 (AUC 0.5) for a
// dataset without rows.
Metrics Evaluate(const Dataset& data, absl::Span<const float> weights);

// The objective of L1 logistic regression: the mean log-loss on `train` + l1·(sum of |w|).
double Objective(const Dataset& train, absl::Span<const float> weights, double l1);

// The number of weights that are not exactly 0.
size_t NonZeros(absl::Span<const float> weights);

// Area under the ROC curve of `scores` against `labels` (1 or 0): the chance that a random positive scores
// above a random negative, ties counting half. 0.5 when a class is missing. Scores must not be NaN.
double AreaUnderRoc(absl::Span<const double> scores, absl::Span<const float> labels);

}  // namespace paceline::examples
