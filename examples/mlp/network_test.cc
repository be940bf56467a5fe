#include "examples/mlp/network.h"

#include <cmath>
#include <numeric>

#include "examples/lib/random.h"
#include "examples/mlp/reference.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

// Images of a bright quarter each; the label says which.
Images Quarters(size_t count, uint64_t seed) {
  Random random(seed);
  Images images{.pixels = 16, .classes = 4, .values = {}, .labels = {}};
  for (size_t n = 0; n < count; ++n) {
    const auto label = static_cast<uint8_t>(random.Below(4));
    for (size_t pixel = 0; pixel < images.pixels; ++pixel) {
      images.values.push_back(static_cast<uint8_t>(random.Below(80) + (pixel / 4 == label ? 120 : 0)));
    }
    images.labels.push_back(label);
  }
  return images;
}

std::vector<std::vector<float>> StartOfAll(const std::vector<LayerShape>& shapes) {
  std::vector<std::vector<float>> weights;
  for (size_t layer = 0; layer < shapes.size(); ++layer) {
    weights.push_back(StartWeights(shapes[layer], LayerSeed(1, layer)));
  }
  return weights;
}

double LossOf(Pass& pass, const Images& images, const std::vector<uint32_t>& which,
              const std::vector<std::vector<float>>& weights) {
  pass.Begin(images, which);
  for (size_t layer = 0; layer < weights.size(); ++layer) pass.Forward(layer, weights[layer]);
  return pass.Loss();
}

TEST(NetworkTest, ShapesGoFromPixelsToClasses) {
  const std::vector<LayerShape> shapes = ShapesOf(784, {128, 32}, 10);
  ASSERT_EQ(shapes.size(), 3u);
  EXPECT_EQ(shapes[0].inputs, 784u);
  EXPECT_EQ(shapes[1].inputs, 128u);
  EXPECT_EQ(shapes[2].outputs, 10u);
  EXPECT_EQ(shapes[2].values(), 33u * 10);
}

TEST(NetworkTest, GradientsAreThoseOfDifferences) {
  const Images images = Quarters(5, 3);
  const std::vector<LayerShape> shapes = ShapesOf(images.pixels, {9, 11}, 4);
  std::vector<std::vector<float>> weights = StartOfAll(shapes);
  const std::vector<uint32_t> which = {4, 0, 1, 2, 3};
  Pass pass(shapes), other(shapes);
  LossOf(pass, images, which, weights);
  int weights_seen = 0, off = 0;
  for (size_t layer = shapes.size(); layer-- > 0;) {
    const absl::Span<const float> gradient = pass.Backward(layer, weights[layer]);
    ASSERT_EQ(gradient.size(), shapes[layer].values());
    for (size_t i = 0; i < gradient.size(); ++i) {
      constexpr float kStep = 1e-3f;
      const float kept = weights[layer][i];
      weights[layer][i] = kept + kStep;
      const double above = LossOf(other, images, which, weights);
      weights[layer][i] = kept - kStep;
      const double below = LossOf(other, images, which, weights);
      weights[layer][i] = kept;
      const double slope = (above - below) / (2 * kStep * static_cast<double>(which.size()));
      ++weights_seen;
      if (std::abs(gradient[i] - slope) > 2e-3) ++off;
    }
  }
  EXPECT_EQ(weights_seen, 17 * 9 + 10 * 11 + 12 * 4);
  EXPECT_LE(off, 20) << "more than where max(0, x) has its kink between the two";
}

TEST(NetworkTest, OneProcessLearns) {
  const Images train = Quarters(400, 1), test = Quarters(200, 2);
  MlpOptions options;
  options.epochs = 10;
  options.batch_size = 10;
  const std::vector<LayerShape> shapes = ShapesOf(train.pixels, {12}, 4);
  const double before = AccuracyOf(shapes, StartOfAll(shapes), test);
  const MlpReference reference = TrainReference(options, shapes, train).value();
  EXPECT_LT(before, 0.7);
  EXPECT_GT(AccuracyOf(shapes, reference.weights, test), 0.95);
  EXPECT_LT(reference.curve.back().loss, reference.curve.front().loss / 2);
}

}  // namespace
}  // namespace paceline::examples
