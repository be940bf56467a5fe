#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline::tool {

struct ChildOptions {
  std::string name;                      // for messages
  std::vector<std::string> arguments;    // the program, searched in PATH if it has no '/', then its arguments
  std::vector<std::string> environment;  // NAME=VALUE, in addition to this process's environment
  // File descriptor for standard output and error. The child then has an empty standard input and a process
  // group of its own, so that a terminal's ^C does not reach it. -1: it inherits all of these from this
  // process.
  int output = -1;
  sigset_t signal_mask = {};  // the child's signal mask
};

// A child process. The kernel sends it SIGTERM when this process ends, for whatever reason.
struct Child {
  std::string name;
  pid_t process = 0;
  std::optional<int> end;  // from waitpid, once it has ended
};

// Starts a program. NOT_FOUND if there is none of that name, another error if it cannot be run; in both cases
// there is no child. Call it from a thread that lives as long as the process: the kernel takes the thread's
// end for the parent's.
absl::StatusOr<Child> StartChild(const ChildOptions& options);

// Describes how a process ended, from waitpid's status: "ended with exit code 1", "was killed by signal 9
// (Killed)".
std::string DescribeEnd(int wait_status);

// The exit code by the shells' convention: that of the process, or 128 + the signal.
int ExitCodeOf(int wait_status);

// The folder of this program, which has the other programs too.
std::filesystem::path FolderOfPrograms();

}  // namespace paceline::tool
