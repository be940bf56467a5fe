#include "examples/mlp/network.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "examples/lib/random.h"

namespace paceline::examples {
namespace {

// to += factor * from
void AddTimes(const float* from, float factor, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// Several sums at once: compilers do not reorder one.
float Dot(const float* a, const float* b, size_t n) {
  constexpr size_t kSums = 8;
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (size_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums, sums + kSums, 0.0f);
}

}  // namespace

std::vector<LayerShape> ShapesOf(size_t pixels, absl::Span<const uint32_t> hidden, uint32_t classes) {
  std::vector<LayerShape> shapes;
  auto inputs = static_cast<uint32_t>(pixels);
  for (const uint32_t outputs : hidden) {
    shapes.push_back({.inputs = inputs, .outputs = outputs});
    inputs = outputs;
  }
  shapes.push_back({.inputs = inputs, .outputs = classes});
  return shapes;
}

float StartOf(const LayerShape& shape) {
  return std::sqrt(6.0f / static_cast<float>(shape.inputs));
}

std::vector<float> StartWeights(const LayerShape& shape, uint64_t table_seed) {
  const uint64_t of_table = Mix64(Mix64(table_seed));
  const double low = -StartOf(shape), high = StartOf(shape);
  std::vector<float> weights;
  weights.reserve(shape.values());
  for (uint64_t row = 0; row < shape.rows(); ++row) {
    Random words(Mix64(row + of_table));
    for (uint32_t column = 0; column < shape.outputs; ++column) {
      weights.push_back(static_cast<float>(low + (high - low) * words.Unit()));
    }
  }
  return weights;
}

uint64_t LayerSeed(uint64_t seed, size_t layer) {
  return Mix64(1'000 * seed + layer + 1) | 1;
}

Pass::Pass(std::vector<LayerShape> shapes) : shapes_(std::move(shapes)), inputs_(shapes_.size() + 1) {}

void Pass::Begin(const Images& images, absl::Span<const uint32_t> which) {
  labels_.clear();
  inputs_[0].clear();
  for (const uint32_t image : which) {
    labels_.push_back(images.labels[image]);
    for (size_t i = 0; i < images.pixels; ++i) {
      inputs_[0].push_back(static_cast<float>(images.of(image)[i]) / 255.0f);
    }
  }
}

void Pass::Forward(size_t layer, absl::Span<const float> weights) {
  const LayerShape& shape = shapes_[layer];
  const float* const biases = weights.data() + size_t{shape.inputs} * shape.outputs;
  std::vector<float>& outputs = inputs_[layer + 1];
  outputs.resize(batch() * shape.outputs);
  for (size_t image = 0; image < batch(); ++image) {
    const float* const in = inputs_[layer].data() + image * shape.inputs;
    float* const out = outputs.data() + image * shape.outputs;
    std::copy_n(biases, shape.outputs, out);
    for (uint32_t i = 0; i < shape.inputs; ++i) {
      // Many are 0: paper is blank, and so are half of what max(0, x) gives.
      if (in[i] != 0) AddTimes(weights.data() + size_t{i} * shape.outputs, in[i], shape.outputs, out);
    }
    if (layer + 1 == shapes_.size()) continue;
    for (uint32_t o = 0; o < shape.outputs; ++o) out[o] = std::max(out[o], 0.0f);
  }
}

double Pass::Loss() {
  const size_t classes = shapes_.back().outputs;
  slopes_.resize(batch() * classes);
  double loss = 0;
  for (size_t image = 0; image < batch(); ++image) {
    const float* const out = inputs_.back().data() + image * classes;
    float* const slope = slopes_.data() + image * classes;
    const float most = *std::max_element(out, out + classes);
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(out[c] - most));
    loss += std::log(sum) - (out[labels_[image]] - most);
    for (size_t c = 0; c < classes; ++c) {
      const double share = std::exp(static_cast<double>(out[c] - most)) / sum;
      slope[c] = static_cast<float>((share - (c == labels_[image] ? 1 : 0)) / static_cast<double>(batch()));
    }
  }
  return loss;
}

absl::Span<const float> Pass::Backward(size_t layer, absl::Span<const float> weights) {
  const LayerShape& shape = shapes_[layer];
  gradient_.assign(shape.values(), 0);
  before_.assign(batch() * shape.inputs, 0);
  float* const biases = gradient_.data() + size_t{shape.inputs} * shape.outputs;
  for (size_t image = 0; image < batch(); ++image) {
    const float* const in = inputs_[layer].data() + image * shape.inputs;
    const float* const slope = slopes_.data() + image * shape.outputs;
    float* const before = before_.data() + image * shape.inputs;
    AddTimes(slope, 1, shape.outputs, biases);
    for (uint32_t i = 0; i < shape.inputs; ++i) {
      if (in[i] == 0) continue;  // where max(0, x) cut, the slope before it is 0, too
      AddTimes(slope, in[i], shape.outputs, gradient_.data() + size_t{i} * shape.outputs);
      if (layer > 0) {
        before[i] = Dot(weights.data() + size_t{i} * shape.outputs, slope, shape.outputs);
      }
    }
  }
  std::swap(slopes_, before_);
  return gradient_;
}

size_t Pass::Right() const {
  const size_t classes = shapes_.back().outputs;
  size_t right = 0;
  for (size_t image = 0; image < batch(); ++image) {
    const float* const out = inputs_.back().data() + image * classes;
    right += std::max_element(out, out + classes) - out == labels_[image] ? 1 : 0;
  }
  return right;
}

double AccuracyOf(const std::vector<LayerShape>& shapes, const std::vector<std::vector<float>>& weights,
                  const Images& images) {
  constexpr size_t kAtOnce = 256;
  Pass pass(shapes);
  size_t right = 0;
  for (size_t begin = 0; begin < images.count(); begin += kAtOnce) {
    std::vector<uint32_t> which(std::min(kAtOnce, images.count() - begin));
    std::iota(which.begin(), which.end(), static_cast<uint32_t>(begin));
    pass.Begin(images, which);
    for (size_t layer = 0; layer < shapes.size(); ++layer) pass.Forward(layer, weights[layer]);
    right += pass.Right();
  }
  return static_cast<double>(right) / static_cast<double>(images.count());
}

}  // namespace paceline::examples
