#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "examples/mlp/images.h"

namespace paceline::examples {

// The arithmetic of a multilayer perceptron, the same for the job's workers and for the reference in one
// process: fully connected layers, max(0, x) behind each but the last, softmax and cross entropy behind the
// last (Goodfellow, Bengio, Courville: Deep Learning, 2016, chapter 6).

// A layer's weights are rows of `outputs` values: a row for each input, and one of biases behind them.
struct LayerShape {
  uint32_t inputs = 0;
  uint32_t outputs = 0;

  uint64_t rows() const { return uint64_t{inputs} + 1; }
  uint64_t values() const { return rows() * outputs; }
};

// The layers from `pixels` over `hidden` to `classes`.
std::vector<LayerShape> ShapesOf(size_t pixels, absl::Span<const uint32_t> hidden, uint32_t classes);

// Where the weights of a layer start, evenly distributed between -b and b: the initialiser Uniform of a table
// of this seed (docs/rules.md, "Initialisers"). b is the root of 6 / inputs (He, Zhang, Ren, Sun: Delving
// Deep into Rectifiers, ICCV 2015).
float StartOf(const LayerShape& shape);
std::vector<float> StartWeights(const LayerShape& shape, uint64_t table_seed);
// The seed of a layer's table in a run of `seed`; not 0, which would leave the choice to the cluster.
uint64_t LayerSeed(uint64_t seed, size_t layer);

// A pass over a batch, layer by layer, so that a layer's weights are needed only while it is computed, and
// its gradient is there as soon as it is. For one thread; keeps its memory from batch to batch.
class Pass {
 public:
  explicit Pass(std::vector<LayerShape> shapes);

  const std::vector<LayerShape>& shapes() const { return shapes_; }

  // Begins a batch of these images.
  void Begin(const Images& images, absl::Span<const uint32_t> which);
  // Computes the next layer, in ascending order, with its weights.
  void Forward(size_t layer, absl::Span<const float> weights);
  // After the last layer: the sum of the images' cross entropies.
  double Loss();
  // After Loss: the gradient of the mean cross entropy by the layer's weights; in descending order.
  // `weights` are those of Forward.
  absl::Span<const float> Backward(size_t layer, absl::Span<const float> weights);
  // After the last layer, instead of Loss: how many images have the largest output for their label.
  size_t Right() const;

 private:
  size_t batch() const { return labels_.size(); }

  const std::vector<LayerShape> shapes_;
  std::vector<uint8_t> labels_;
  std::vector<std::vector<float>> inputs_;  // of each layer, and behind the last its outputs; by image
  std::vector<float> slopes_;               // of the loss by the outputs of the layer that is next
  std::vector<float> before_;               // … by its inputs
  std::vector<float> gradient_;
};

// The share of the images that the model, layer by layer, is right about.
double AccuracyOf(const std::vector<LayerShape>& shapes, const std::vector<std::vector<float>>& weights,
                  const Images& images);

}  // namespace paceline::examples
