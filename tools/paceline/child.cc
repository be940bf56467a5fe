#include "tools/paceline/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace paceline::tool {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment with `changes` in place of what has the same name.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string known(*variable);
    const std::string name = known.substr(0, known.find('=') + 1);
    bool changed = false;
    for (const std::string& change : changes) changed = changed || change.compare(0, name.size(), name) == 0;
    if (!changed) all.push_back(known);
  }
  return all;
}

void Detach(int output) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
}

// The child's steps before it becomes another program. Other threads may have been cut off anywhere: nothing
// here allocates or locks.
[[noreturn]] void Become(const ChildOptions& options, char* const* arguments, char* const* environment,
                         pid_t parent, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it ended before the kernel knew what to do then
  if (options.output >= 0) Detach(options.output);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  if (write(failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// The errno the child wrote because it could not become another program, 0 if it could.
int ReadFailure(int pipe) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(pipe, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(error)) ? error : 0;
}

}  // namespace

absl::StatusOr<Child> StartChild(const ChildOptions& options) {
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = EnvironmentWith(options.environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) Become(options, argv.data(), envp.data(), parent, failure[1]);
  int error = process < 0 ? errno : 0;
  close(failure[1]);
  if (process > 0 && (error = ReadFailure(failure[0])) != 0) waitpid(process, nullptr, 0);
  close(failure[0]);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", arguments[0]));
  return Child{.name = options.name, .process = process, .end = std::nullopt};
}

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::filesystem::path FolderOfPrograms() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace paceline::tool
