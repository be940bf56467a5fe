#include "tools/paceline/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "libs/world/real_clock.h"

namespace paceline::tool {
namespace {

// For poll: -1 is for ever.
int MillisecondsUntil(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return -1;
  const absl::Duration left = absl::Ceil(deadline - world::MonotonicNow(), absl::Milliseconds(1));
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 0, 1'000'000));
}

bool HasEnded(const Child* child) {
  return child->end.has_value();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create() {
  std::unique_ptr<Supervisor> supervisor(new Supervisor());
  std::signal(SIGCHLD, SIG_DFL);  // ignored, as some parents leave it, it would hide how children end
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that goes away must not keep us from tidying up
  sigset_t own;
  sigemptyset(&own);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&own, signal);
  sigprocmask(SIG_BLOCK, &own, &supervisor->before_);
  supervisor->signals_ = signalfd(-1, &own, SFD_NONBLOCK | SFD_CLOEXEC);
  if (supervisor->signals_ < 0) return absl::ErrnoToStatus(errno, "cannot listen for signals");
  return supervisor;
}

Supervisor::~Supervisor() {
  for (const auto& child : children_) {
    if (HasEnded(child.get())) continue;
    Signal(*child, SIGKILL);
    waitpid(child->process, nullptr, 0);
  }
  close(signals_);
}

absl::StatusOr<const Child*> Supervisor::Start(ChildOptions options) {
  options.signal_mask = before_;
  absl::StatusOr<Child> child = StartChild(options);
  if (!child.ok()) return child.status();
  children_.push_back(std::make_unique<Child>(*std::move(child)));
  return children_.back().get();
}

Supervisor::Event Supervisor::Wait(absl::Time deadline, int file) {
  while (true) {
    // A child that ends after Reap wakes the poll.
    if (const Event event = TakeSignals(); !std::holds_alternative<TimedOut>(event)) return event;
    Reap();
    if (!ended_.empty()) {
      const Child* child = ended_.front();
      ended_.pop_front();
      return Ended{child};
    }
    pollfd waited[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                       {.fd = file, .events = POLLIN, .revents = 0}};
    const int ready = poll(waited, 2, MillisecondsUntil(deadline));
    if (ready > 0 && waited[1].revents != 0) return Readable{};
    if (ready == 0 && world::MonotonicNow() >= deadline) return TimedOut{};
  }
}

Supervisor::Event Supervisor::TakeSignals() const {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == SIGCHLD) continue;
    return Signalled{.signal = static_cast<int>(info.ssi_signo), .by_terminal = info.ssi_code == SI_KERNEL};
  }
  return TimedOut{};
}

void Supervisor::Reap() {
  for (const auto& child : children_) {
    int status = 0;
    if (HasEnded(child.get()) || waitpid(child->process, &status, WNOHANG) != child->process) continue;
    child->end = status;
    ended_.push_back(child.get());
  }
}

void Supervisor::Signal(const Child& child, int signal) const {
  if (!HasEnded(&child)) kill(child.process, signal);
}

void Supervisor::Stop(const std::vector<const Child*>& children, absl::Duration grace) {
  for (const Child* child : children) Signal(*child, SIGTERM);
  absl::Time deadline = world::MonotonicNow() + grace;
  std::vector<const Child*> others;
  while (!std::all_of(children.begin(), children.end(), HasEnded)) {
    const Event event = Wait(deadline);
    if (const Ended* ended = std::get_if<Ended>(&event)) {
      if (std::find(children.begin(), children.end(), ended->child) == children.end())
        others.push_back(ended->child);
      continue;
    }
    for (const Child* child : children) Signal(*child, SIGKILL);
    deadline = absl::InfiniteFuture();
  }
  std::erase_if(ended_, [&](const Child* c) {
    return std::find(children.begin(), children.end(), c) != children.end();
  });
  ended_.insert(ended_.begin(), others.begin(), others.end());
}

}  // namespace paceline::tool
