#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// The arithmetic of logistic regression as the benchmarks do it, with nothing but std: other stores' programs
// use it too.
namespace paceline::bench::lr {

inline constexpr uint64_t kFeatures = 1'000'000;
inline constexpr size_t kFeaturesPerExample = 32;
inline constexpr size_t kBatch = 256;
// How many batches ahead a pull is made.
inline constexpr size_t kAhead = 4;
inline constexpr float kLearningRate = 0.05f;

// A batch as the loader of a training program leaves it: the features of its examples, and, for whoever has
// the model elsewhere, its distinct features in ascending order and where each occurrence stands among them.
struct Batch {
  std::vector<uint32_t> features;  // kFeaturesPerExample an example
  std::vector<float> labels;
  std::vector<uint64_t> keys;
  std::vector<uint32_t> places;  // in `keys`, of each of `features`
};

// Of example `i` by the weights that `index` names: the prediction minus the label. Adds the example's loss.
inline float Error(const Batch& batch, size_t i, const std::vector<uint32_t>& index, const float* weights,
                   double& loss) {
  float score = 0;
  const uint32_t* features = index.data() + i * kFeaturesPerExample;
  for (size_t f = 0; f < kFeaturesPerExample; ++f) score += weights[features[f]];
  const float prediction = 1.0f / (1.0f + std::exp(-score));
  const float label = batch.labels[i];
  loss -= std::log(std::max(label > 0 ? prediction : 1 - prediction, 1e-7f));
  return prediction - label;
}

// Adds each example's error times `scale` to the values of its features.
inline void AddGradients(const std::vector<float>& errors, const std::vector<uint32_t>& index, float scale,
                         float* values) {
  for (size_t i = 0; i < kBatch; ++i) {
    const float step = errors[i] * scale;
    const uint32_t* features = index.data() + i * kFeaturesPerExample;
    for (size_t f = 0; f < kFeaturesPerExample; ++f) values[features[f]] += step;
  }
}

}  // namespace paceline::bench::lr
