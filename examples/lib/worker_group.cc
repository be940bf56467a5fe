#include "examples/lib/worker_group.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "examples/lib/console.h"
#include "examples/lib/steady_now.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kTimeToEnd = absl::Seconds(5);

sigset_t OwnSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGCHLD);
  return set;
}

// A terminal's Ctrl-C goes to parent and workers alike: these leave it to the parent.
sigset_t SignalsBlockedInWorkers() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

// As a worker's own times.
int64_t MonotonicNanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Starts this program again, its standard output being `output`. 0 or an errno.
int Spawn(std::vector<std::string> arguments, int output, pid_t* process) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const sigset_t blocked = SignalsBlockedInWorkers();
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = posix_spawn(process, "/proc/self/exe", &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

WorkerGroup::WorkerGroup() {
  std::signal(SIGCHLD,
              SIG_DFL);  // ignored, as some programs leave it to theirs, it would hide how workers end
  const sigset_t own = OwnSignals();
  sigprocmask(SIG_BLOCK, &own, nullptr);
  signals_ = signalfd(-1, &own, SFD_NONBLOCK | SFD_CLOEXEC);
}

absl::StatusOr<std::unique_ptr<WorkerGroup>> WorkerGroup::Start(const std::vector<std::string>& arguments,
                                                                const std::string& job, uint32_t workers,
                                                                bool others_take_over) {
  std::unique_ptr<WorkerGroup> group(new WorkerGroup());
  group->others_take_over_ = others_take_over;
  if (group->signals_ < 0) return absl::ErrnoToStatus(errno, "cannot listen for signals");
  for (uint32_t rank = 0; rank < workers; ++rank) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--worker", absl::StrCat(rank), "--job", job});
    if (absl::Status s = group->StartWorker(std::move(all)); !s.ok()) return s;
  }
  return group;
}

absl::Status WorkerGroup::StartWorker(std::vector<std::string> arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe for a worker");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Worker worker;
  worker.pipe = ends[0];
  const int error = Spawn(std::move(arguments), ends[1], &worker.process);
  close(ends[1]);
  if (error != 0) worker.process = 0;
  workers_.push_back(std::move(worker));
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "cannot start a worker process");
}

WorkerGroup::~WorkerGroup() {
  for (const Worker& worker : workers_) {
    if (worker.process != 0) kill(worker.process, SIGTERM);
  }
  if (!AwaitEnds(kTimeToEnd)) {
    for (const Worker& worker : workers_) {
      if (worker.process != 0) kill(worker.process, SIGKILL);
    }
    AwaitEnds(kTimeToEnd);
  }
  for (const Worker& worker : workers_) close(worker.pipe);
  close(signals_);
  const sigset_t own = OwnSignals();
  sigprocmask(SIG_UNBLOCK, &own, nullptr);
}

// Reads on meanwhile, lest a worker that ends waits for room in its pipe.
bool WorkerGroup::AwaitEnds(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  const auto ended = [](const Worker& worker) { return worker.process == 0; };
  while (!std::all_of(workers_.begin(), workers_.end(), ended)) {
    if (SteadyNow() >= deadline) return false;
    Wait(absl::Milliseconds(50)).IgnoreError();
  }
  return true;
}

absl::Status WorkerGroup::Wait(absl::Duration timeout) {
  std::vector<pollfd> waited = {{.fd = signals_, .events = POLLIN, .revents = 0}};
  for (const Worker& worker : workers_) {
    if (worker.process != 0) waited.push_back({.fd = worker.pipe, .events = POLLIN, .revents = 0});
  }
  poll(waited.data(), waited.size(), static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  TakeSignals();
  absl::Status first;
  for (Worker& worker : workers_) first.Update(Reap(&worker));
  if (signal_ != 0) return absl::CancelledError(absl::StrCat("stopped by ", strsignal(signal_)));
  return first;
}

void WorkerGroup::TakeSignals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo != SIGCHLD) signal_ = static_cast<int>(info.ssi_signo);
  }
}

// Not OK if the worker has ended without having done its work.
absl::Status WorkerGroup::Reap(Worker* worker) {
  if (worker->process == 0) return absl::OkStatus();
  int wait_status = 0;
  const pid_t process = worker->process;
  const bool ended = waitpid(process, &wait_status, WNOHANG) == process;
  Read(worker);  // after an end, this gets the last word
  if (!ended) return absl::OkStatus();
  worker->process = 0;
  if (wait_status == 0 && worker->report.stage == WorkerReport::Stage::kDone) return absl::OkStatus();
  std::string why = worker->report.error.empty() ? "" : absl::StrCat(": ", worker->report.error);
  const std::string end = absl::StrCat("worker ", worker - workers_.data(), " (process ", process, ") ",
                                       DescribeEnd(wait_status), why);
  if (!TakenOver(*worker, wait_status)) return absl::AbortedError(end);
  worker->killed = true;
  worker->report.ended = MonotonicNanoseconds();
  WriteError(absl::StrCat(end, "; the others take over its work\n"));
  return absl::OkStatus();
}

// One that has not begun is missed by the others, who wait for it; and somebody must be left.
bool WorkerGroup::TakenOver(const Worker& worker, int wait_status) const {
  return others_take_over_ && WIFSIGNALED(wait_status) && worker.report.began != 0 &&
         std::any_of(workers_.begin(), workers_.end(), [](const Worker& other) {
           return other.process != 0 || other.report.stage == WorkerReport::Stage::kDone;
         });
}

void WorkerGroup::Read(Worker* worker) {
  char buffer[4096];
  ssize_t got;
  while ((got = read(worker->pipe, buffer, sizeof(buffer))) > 0) {
    worker->unread.append(buffer, static_cast<size_t>(got));
  }
  size_t newline;
  while ((newline = worker->unread.find('\n')) != std::string::npos) {
    absl::StatusOr<WorkerReport> report = FromLine(worker->unread.substr(0, newline));
    if (report.ok()) worker->report = *std::move(report);  // else a library has spoken
    worker->unread.erase(0, newline + 1);
  }
}

bool WorkerGroup::done() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.process == 0 && (worker.killed || worker.report.stage == WorkerReport::Stage::kDone);
  });
}

std::vector<WorkerReport> WorkerGroup::reports() const {
  std::vector<WorkerReport> reports;
  for (const Worker& worker : workers_) reports.push_back(worker.report);
  return reports;
}

}  // namespace paceline::examples
