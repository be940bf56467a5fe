#include "examples/sparse_lr/logistic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace paceline::examples {
namespace {

// -log p for a positive example and -log(1 - p) for a negative one, without overflow at any margin.
double ExampleLoss(double margin, bool positive) {
  const double m = positive ? -margin : margin;
  return std::max(m, 0.0) + std::log1p(std::exp(-std::abs(m)));
}

double Probability(double margin) {
  return 1.0 / (1.0 + std::exp(-margin));
}

double RowMargin(const Dataset& data, size_t row, absl::Span<const float> weights) {
  double margin = 0;
  for (uint64_t k = data.row_begin[row]; k < data.row_begin[row + 1]; ++k) {
    if (data.columns[k] < weights.size()) {
      margin += static_cast<double>(weights[data.columns[k]]) * data.values[k];
    }
  }
  return margin;
}

std::vector<double> Margins(const Dataset& data, absl::Span<const float> weights) {
  std::vector<double> margins(data.rows());
  for (size_t row = 0; row < margins.size(); ++row) {
    margins[row] = RowMargin(data, row, weights);
  }
  return margins;
}

double MeanLoss(absl::Span<const double> margins, absl::Span<const float> labels) {
  double sum = 0;
  for (size_t i = 0; i < margins.size(); ++i) {
    sum += ExampleLoss(margins[i], labels[i] > 0.5f);
  }
  return margins.empty() ? 0.0 : sum / static_cast<double>(margins.size());
}

double ShareRight(absl::Span<const double> margins, absl::Span<const float> labels) {
  size_t right = 0;
  for (size_t i = 0; i < margins.size(); ++i) {
    right += (margins[i] > 0) == (labels[i] > 0.5f);
  }
  return margins.empty() ? 0.0 : static_cast<double>(right) / static_cast<double>(margins.size());
}

}  // namespace

BatchBuilder::BatchBuilder(const Dataset* data)
    : data_(data), present_(data->column_count / 64 + 1), index_(data->column_count) {}

void BatchBuilder::Build(absl::Span<const uint32_t> rows, Batch* batch) {
  CopyRows(rows, batch);
  NumberColumns(batch);
}

void BatchBuilder::CopyRows(absl::Span<const uint32_t> rows, Batch* batch) {
  batch->row_begin.assign(1, 0);
  batch->local.clear();
  batch->values.clear();
  batch->labels.clear();
  for (uint32_t row : rows) {
    const auto begin = static_cast<ptrdiff_t>(data_->row_begin[row]);
    const auto end = static_cast<ptrdiff_t>(data_->row_begin[row + 1]);
    batch->local.insert(batch->local.end(), data_->columns.begin() + begin, data_->columns.begin() + end);
    batch->values.insert(batch->values.end(), data_->values.begin() + begin, data_->values.begin() + end);
    batch->labels.push_back(data_->labels[row]);
    batch->row_begin.push_back(static_cast<uint32_t>(batch->local.size()));
  }
}

// Turns batch->local from columns into indices. A bit a column sorts and removes repeats in one sweep.
void BatchBuilder::NumberColumns(Batch* batch) {
  for (uint32_t column : batch->local) {
    present_[column / 64] |= uint64_t{1} << (column % 64);
  }
  batch->keys.clear();
  for (size_t word = 0; word < present_.size(); ++word) {
    for (uint64_t bits = present_[word]; bits != 0; bits &= bits - 1) {
      const uint64_t column = word * 64 + static_cast<uint64_t>(std::countr_zero(bits));
      index_[column] = static_cast<uint32_t>(batch->keys.size());
      batch->keys.push_back(column);
    }
    present_[word] = 0;
  }
  for (uint32_t& column : batch->local) {
    column = index_[column];
  }
}

double ComputeGradient(const Batch& batch, absl::Span<const float> weights, absl::Span<float> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  double loss = 0;
  for (size_t row = 0; row < batch.rows(); ++row) {
    double margin = 0;
    for (uint32_t k = batch.row_begin[row]; k < batch.row_begin[row + 1]; ++k) {
      margin += static_cast<double>(weights[batch.local[k]]) * batch.values[k];
    }
    loss += ExampleLoss(margin, batch.labels[row] > 0.5f);
    const auto error = static_cast<float>(Probability(margin) - batch.labels[row]);
    for (uint32_t k = batch.row_begin[row]; k < batch.row_begin[row + 1]; ++k) {
      gradient[batch.local[k]] += error * batch.values[k];
    }
  }
  return loss;
}

Metrics Evaluate(const Dataset& data, absl::Span<const float> weights) {
  const std::vector<double> margins = Margins(data, weights);
  return {.log_loss = MeanLoss(margins, data.labels),
          .auc = AreaUnderRoc(margins, data.labels),
          .accuracy = ShareRight(margins, data.labels)};
}

double Objective(const Dataset& train, absl::Span<const float> weights, double l1) {
  const double norm = std::accumulate(weights.begin(), weights.end(), 0.0,
                                      [](double sum, float w) { return sum + std::abs(w); });
  return MeanLoss(Margins(train, weights), train.labels) + l1 * norm;
}

size_t NonZeros(absl::Span<const float> weights) {
  return static_cast<size_t>(std::count_if(weights.begin(), weights.end(), [](float w) { return w != 0; }));
}

double AreaUnderRoc(absl::Span<const double> scores, absl::Span<const float> labels) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] < scores[b]; });
  double negatives = 0, positives = 0, won = 0;  // of what has been passed; pairs in the right order
  for (size_t i = 0; i < order.size();) {
    double tied_negatives = 0, tied_positives = 0;
    const double score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      (labels[order[i]] > 0.5f ? tied_positives : tied_negatives) += 1;
    }
    won += tied_positives * (negatives + tied_negatives / 2);
    negatives += tied_negatives;
    positives += tied_positives;
  }
  return negatives == 0 || positives == 0 ? 0.5 : won / (negatives * positives);
}

}  // namespace paceline::examples
