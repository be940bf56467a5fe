#pragma once

#include "examples/sparse_lr/options.h"

namespace paceline::examples {

// One worker of a group whose processes somebody else starts, an indexed Job of Kubernetes for example: of
// rank options.index of options.workers, which is also its share of the data. When it is started again after
// its death it takes part as a new session, from the clock on at which the others are.
//
// With --work queue the rank is only a name: it joins the job at once, and takes items of the queue. Others
// may come and go meanwhile, and what one that died has not trained is trained by others.
//
// Number 0 waits for the others at the end, reads the model, scores it and compares it with the same training
// in one process. Returns the process's exit code: of number 0 it is 0 only if the held-out log-loss is
// within 1 % of that, by a queue 5 %. A worker that is started again when all clocks are over has nothing
// left to do.
int RunIndexed(const RunOptions& options);

}  // namespace paceline::examples
