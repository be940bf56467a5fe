#include "examples/sparse_lr/training_set.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::examples {
namespace {

constexpr float kApart = 1000;

// The largest absolute value of each column; 1 where there is none.
std::vector<float> Largest(const Dataset& data) {
  std::vector<float> largest(data.column_count, 0.0f);
  for (size_t k = 0; k < data.nonzeros(); ++k) {
    float& of_column = largest[data.columns[k]];
    of_column = std::max(of_column, std::abs(data.values[k]));
  }
  std::replace(largest.begin(), largest.end(), 0.0f, 1.0f);
  return largest;
}

bool Unscaled(const std::vector<float>& largest) {
  if (largest.empty()) return false;
  const auto [least, most] = std::minmax_element(largest.begin(), largest.end());
  return *most > 1 || *most > kApart * *least;
}

double RowNorm(const Dataset& data) {
  double squares = 0;
  for (const float value : data.values) squares += double{value} * value;
  return squares > 0 ? std::sqrt(squares / static_cast<double>(data.rows())) : 1;
}

}  // namespace

TrainingSet MakeTrainingSet(Dataset data, bool may_divide) {
  TrainingSet set{.data = std::move(data), .divisors = {}, .shape = {}};
  if (may_divide) {
    std::vector<float> largest = Largest(set.data);
    if (Unscaled(largest)) set.divisors = std::move(largest);
  }
  DivideAs(set, &set.data);
  set.shape = {.examples = set.data.rows(), .row_norm = RowNorm(set.data)};
  return set;
}

absl::StatusOr<TrainingSet> ReadTrainingSet(const std::string& path, bool may_divide) {
  absl::StatusOr<Dataset> data = ReadLibsvm(path);
  if (!data.ok()) return data.status();
  return MakeTrainingSet(*std::move(data), may_divide);
}

void DivideAs(const TrainingSet& train, Dataset* other) {
  if (train.divisors.empty()) return;
  for (size_t k = 0; k < other->nonzeros(); ++k) {
    const uint32_t column = other->columns[k];
    if (column < train.divisors.size()) other->values[k] /= train.divisors[column];
  }
}

std::vector<float> OwnWeights(const TrainingSet& train, absl::Span<const float> weights) {
  std::vector<float> own(weights.begin(), weights.end());
  for (size_t column = 0; column < train.divisors.size() && column < own.size(); ++column) {
    own[column] /= train.divisors[column];
  }
  return own;
}

}  // namespace paceline::examples
