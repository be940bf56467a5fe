#include "examples/sparse_lr/ftrl_reference.h"

#include <algorithm>
#include <cmath>

#include "absl/types/span.h"
#include "examples/lib/schedule.h"
#include "examples/sparse_lr/logistic.h"

namespace paceline::examples {
namespace {

void ApplyBatch(const ReferenceOptions& options, const Batch& batch, absl::Span<const float> gradient,
                std::vector<FtrlRow>* model) {
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    FtrlRow& row = (*model)[batch.keys[i]];
    if (options.sgd_lr.has_value()) {
      row.w -= *options.sgd_lr * gradient[i];
    } else {
      FtrlApply(options.ftrl, gradient[i], &row);
    }
  }
}

}  // namespace

void FtrlApply(const FtrlOptions& options, float gradient, FtrlRow* row) {
  const float root = std::sqrt(row->n);
  const float sigma = (std::sqrt(row->n + gradient * gradient) - root) / options.alpha;
  row->z += gradient - sigma * row->w;
  row->n += gradient * gradient;
  if (std::abs(row->z) <= options.lambda1) {
    row->w = 0.0f;
    return;
  }
  const float shrunk = row->z - std::copysign(options.lambda1, row->z);
  row->w = -shrunk / ((options.beta + std::sqrt(row->n)) / options.alpha + options.lambda2);
}

float FtrlLambda1(double l1, size_t examples, int epochs) {
  return static_cast<float>(l1 * static_cast<double>(examples) * epochs);
}

std::vector<float> TrainReference(const Dataset& data, const ReferenceOptions& options) {
  std::vector<FtrlRow> model(data.column_count);
  Schedule schedule({.examples = data.rows(),
                     .batch_size = options.batch_size,
                     .workers = 1,
                     .epochs = options.epochs,
                     .seed = options.seed},
                    0);
  BatchBuilder builder(&data);
  Batch batch;
  std::vector<float> weights, gradient;
  for (size_t clock = 0; clock < schedule.clocks(); ++clock) {
    builder.Build(schedule.Rows(clock), &batch);
    weights.resize(batch.keys.size());
    gradient.resize(batch.keys.size());
    std::transform(batch.keys.begin(), batch.keys.end(), weights.begin(),
                   [&](uint64_t key) { return model[key].w; });
    ComputeGradient(batch, weights, absl::MakeSpan(gradient));
    ApplyBatch(options, batch, gradient, &model);
  }
  std::vector<float> result(model.size());
  std::transform(model.begin(), model.end(), result.begin(), [](const FtrlRow& row) { return row.w; });
  return result;
}

}  // namespace paceline::examples
