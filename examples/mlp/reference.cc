#include "examples/mlp/reference.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "examples/lib/schedule.h"
#include "examples/lib/steady_now.h"

namespace paceline::examples {
namespace {

// One step on these images. Returns the sum of their losses before it.
double Step(const Images& images, absl::Span<const uint32_t> which, float lr, Pass& pass,
            std::vector<std::vector<float>>& weights) {
  pass.Begin(images, which);
  for (size_t layer = 0; layer < weights.size(); ++layer) pass.Forward(layer, weights[layer]);
  const double loss = pass.Loss();
  for (size_t layer = weights.size(); layer-- > 0;) {
    const absl::Span<const float> gradient = pass.Backward(layer, weights[layer]);
    for (size_t i = 0; i < gradient.size(); ++i) weights[layer][i] -= lr * gradient[i];
  }
  return loss;
}

}  // namespace

absl::StatusOr<MlpReference> TrainReference(const MlpOptions& options, const std::vector<LayerShape>& shapes,
                                            const Images& images) {
  MlpReference reference;
  for (size_t layer = 0; layer < shapes.size(); ++layer) {
    reference.weights.push_back(StartWeights(shapes[layer], LayerSeed(options.seed, layer)));
  }
  const absl::Time began = SteadyNow();
  Pass pass(shapes);
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const std::vector<uint32_t> order = EpochOrder(images.count(), options.seed, epoch);
    double loss = 0;
    for (size_t begin = 0; begin < order.size(); begin += options.batch_size) {
      const size_t count = std::min<size_t>(options.batch_size, order.size() - begin);
      loss +=
          Step(images, absl::MakeConstSpan(order).subspan(begin, count), options.lr, pass, reference.weights);
    }
    if (!std::isfinite(loss)) {
      return absl::InternalError("one process diverges: the loss is not finite; lower --lr");
    }
    reference.curve.push_back({.examples = images.count() * static_cast<uint64_t>(epoch + 1),
                               .seconds = absl::ToDoubleSeconds(SteadyNow() - began),
                               .loss = loss / static_cast<double>(images.count())});
  }
  return reference;
}

}  // namespace paceline::examples
