#pragma once

#include "examples/sparse_lr/options.h"

namespace paceline::examples {

// The whole life of one worker process, of rank options.worker: reads the training set, joins the job, and
// for each clock of its Schedule pulls the weights of its batch, pushes their gradient and ticks. Tells how
// it fares by WorkerReports on standard output. Returns the process's exit code.
//
// SIGTERM ends it in order: the session is closed, so that nobody waits for it. So does its parent's death.
int RunWorker(const RunOptions& options);

}  // namespace paceline::examples
