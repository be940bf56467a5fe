#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "examples/lib/totals.h"
#include "examples/mlp/images.h"
#include "examples/mlp/network.h"
#include "examples/mlp/options.h"

namespace paceline::examples {

// The yardstick of the distributed job: the same steps, in the same order, in one process and one thread.
struct MlpReference {
  std::vector<std::vector<float>> weights;  // by layer
  std::vector<LossPoint> curve;             // a point an epoch
};
absl::StatusOr<MlpReference> TrainReference(const MlpOptions& options, const std::vector<LayerShape>& shapes,
                                            const Images& images);

}  // namespace paceline::examples
