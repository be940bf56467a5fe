#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/lib/worker_report.h"

namespace paceline::examples {

// The worker processes of a run, as their parent sees them: this program, started once a worker with the
// arguments of the parent and `--worker RANK --job NAME`. Started afresh rather than forked, so that no
// library's threads are cut in two.
//
// Where the others can do what a worker leaves undone (`others_take_over`), one that is killed does not end
// the run, so long as another is left: a line on standard error says so.
//
// While it lives, SIGINT, SIGTERM and SIGCHLD are blocked in this process and come to it alone. Make it
// before the process starts any thread. For one thread.
class WorkerGroup {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerGroup>> Start(const std::vector<std::string>& arguments,
                                                            const std::string& job, uint32_t workers,
                                                            bool others_take_over = false);
  // Ends the workers that still run: in order if they manage to within some seconds, else at once.
  ~WorkerGroup();

  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Waits for news, at most so long. Not OK when the run is over without success: a worker failed, and the
  // message says which and how, or this process was told to stop (Cancelled, see signal()).
  absl::Status Wait(absl::Duration timeout);

  // Every worker has finished, but for those that were killed and whose work others have taken over.
  bool done() const;
  // The newest of every worker, by rank.
  std::vector<WorkerReport> reports() const;
  // The signal that told this process to stop, or 0.
  int signal() const { return signal_; }

 private:
  struct Worker {
    pid_t process = 0;  // 0 once it has ended
    int pipe = -1;      // that its reports come from
    std::string unread;
    WorkerReport report;
    bool killed = false;  // and others take over
  };

  WorkerGroup();
  absl::Status StartWorker(std::vector<std::string> arguments);
  absl::Status Reap(Worker* worker);
  bool TakenOver(const Worker& worker, int wait_status) const;
  void Read(Worker* worker);
  void TakeSignals();
  bool AwaitEnds(absl::Duration timeout);

  std::vector<Worker> workers_;
  bool others_take_over_ = false;
  int signals_ = -1;  // signalfd
  int signal_ = 0;
};

// How a process ended, from what waitpid says: "ended with exit code 1", "was killed by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

}  // namespace paceline::examples
