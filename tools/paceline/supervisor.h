#pragma once

#include <signal.h>

#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/paceline/child.h"

namespace paceline::tool {

// The child processes of this one, and the one place to wait for events: the end of a child, or a signal that
// tells this process to stop (SIGINT, SIGTERM, SIGHUP). Create it before any thread starts: it blocks these
// signals and SIGCHLD in the process from then on. For one thread.
class Supervisor {
 public:
  struct TimedOut {};
  struct Readable {};  // the file that was waited for
  struct Ended {
    const Child* child;
  };
  struct Signalled {
    int signal;
    bool by_terminal;  // and so sent to all processes in its foreground
  };
  using Event = std::variant<TimedOut, Readable, Ended, Signalled>;

  static absl::StatusOr<std::unique_ptr<Supervisor>> Create();
  // Kills the children that are still running.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // As StartChild, with the signal mask that this process began with. The child lives as long as the
  // supervisor.
  absl::StatusOr<const Child*> Start(ChildOptions options);

  // The next event; each end is reported once. `file`: also returns when it can be read.
  Event Wait(absl::Time deadline, int file = -1);

  void Signal(const Child& child, int signal) const;

  // Tells the children to end, waits for them, and kills those that are still running after `grace` or at the
  // next signal to this process. Leaves the ends of other children for Wait.
  void Stop(const std::vector<const Child*>& children, absl::Duration grace);

 private:
  Supervisor() = default;
  // The event for the signals that have come; TimedOut if none says to stop.
  Event TakeSignals() const;
  void Reap();

  int signals_ = -1;  // signalfd
  sigset_t before_ = {};
  std::vector<std::unique_ptr<Child>> children_;
  std::deque<const Child*> ended_;  // not reported yet
};

}  // namespace paceline::tool
