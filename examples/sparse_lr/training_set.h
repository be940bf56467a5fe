#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/sparse_lr/libsvm.h"

namespace paceline::examples {

// The sizes from which steps follow, so that they suit data of any scale.
struct Shape {
  size_t examples = 0;
  double row_norm = 1;  // root of the mean square of the rows' lengths; 1 if all are empty
};

// A training set, its columns maybe divided by the largest value in each: what is measured in tens of
// thousands and what is 0 or 1 then learn side by side. Weights are those of the divided columns.
struct TrainingSet {
  Dataset data;
  std::vector<float> divisors;  // by column; empty: nothing was divided
  Shape shape;                  // of what was divided
};

// Columns are divided if some value is beyond 1, or if their largest values are more than 1,000 apart: data
// that its maker has scaled, such as tf-idf and indicators, stays as it is. Every process that reads the same
// file gets the same.
absl::StatusOr<TrainingSet> ReadTrainingSet(const std::string& path, bool may_divide);
TrainingSet MakeTrainingSet(Dataset data, bool may_divide);

// Divides another set's columns in the same way.
void DivideAs(const TrainingSet& train, Dataset* other);

// The weights of the columns as they stand in the file.
std::vector<float> OwnWeights(const TrainingSet& train, absl::Span<const float> weights);

}  // namespace paceline::examples
