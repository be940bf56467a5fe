#pragma once

#include "absl/status/status.h"
#include "examples/lib/job_worker.h"
#include "examples/sparse_lr/options.h"

namespace paceline::examples {

// The training of a worker: reads the training set, joins the job, and for each of its batches, which
// options.work decides (TrainBatches), pulls the weights, pushes their gradient and ticks. `options` must
// outlive the result.
Training TrainingOf(const RunOptions& options);

}  // namespace paceline::examples
