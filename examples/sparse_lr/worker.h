#pragma once

#include <functional>

#include "absl/status/status.h"
#include "examples/sparse_lr/options.h"
#include "examples/sparse_lr/worker_report.h"

namespace paceline::examples {

// How a worker fares: often, and after its last step.
using TellReport = std::function<void(const WorkerReport&)>;

// The whole life of a worker of rank options.worker in this process: reads the training set, joins the job,
// and for each clock of its Schedule, from the job's clock on, pulls the weights of its batch, pushes their
// gradient and ticks. SIGTERM ends it in order: the session is closed, so that nobody waits for it.
//
// With `patient` a rank that another session still has is waited for, as long as for the other workers: that
// of a former start of this worker, which has died, is given free when its silence is noticed.
absl::Status Work(const RunOptions& options, bool patient, const TellReport& tell);

// A worker process of a parent, to which it tells its WorkerReports on standard output. Returns the process's
// exit code. The parent's death ends it as SIGTERM does.
int RunWorker(const RunOptions& options);

// Whether SIGTERM has come.
bool ToldToStop();

}  // namespace paceline::examples
