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

// The child processes of this one, and the one place to wait for what happens: an end of theirs, or a signal
// that tells this process to stop (SIGINT, SIGTERM, SIGHUP). Make it before any thread starts: these signals
// and SIGCHLD are blocked in the process from then on. For one thread.
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
  // Kills the children that still run.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // As StartChild, with the signal mask this process began with. The child lives as long as the supervisor.
  absl::StatusOr<const Child*> Start(ChildOptions options);

  // The next event; each end is told once. `file`: also returns when it can be read.
  Event Wait(absl::Time deadline, int file = -1);

  void Signal(const Child& child, int signal) const;

  // Tells them to end, waits for it, and kills those that have not after `grace` or at the next signal to
  // this process. Ends of other children are left for Wait.
  void Stop(const std::vector<const Child*>& children, absl::Duration grace);

 private:
  Supervisor() = default;
  // What to return for the signals that have come; TimedOut if none says to stop.
  Event TakeSignals() const;
  void Reap();

  int signals_ = -1;  // signalfd
  sigset_t before_ = {};
  std::vector<std::unique_ptr<Child>> children_;
  std::deque<const Child*> ended_;  // not told yet
};

}  // namespace paceline::tool
