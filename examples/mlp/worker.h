#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "examples/lib/job_worker.h"
#include "examples/mlp/options.h"

namespace paceline::examples {

// The table of a layer: a row for each of its inputs, and one of biases.
inline std::string LayerTable(size_t layer) {
  return absl::StrCat("layer-", layer);
}

// The training of a worker: reads the images, joins the job, and for each of its batches, which options.work
// decides (TrainBatches), asks for all layers in their order, waits for each right before its forward pass,
// pushes its gradient right after its backward pass, and ticks. Pulls and pushes of a layer have its index as
// their priority. `options` must outlive the result.
Training TrainingOf(const MlpOptions& options);

}  // namespace paceline::examples
