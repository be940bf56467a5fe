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
  std::string name;                    // for people
  std::vector<std::string> arguments;  // the program, looked for in PATH if it has no '/', then its arguments
  std::vector<std::string> environment;  // NAME=VALUE, over what this process has
  // Where its standard output and error go; its standard input is then empty, and it has a process group of
  // its own, so that a terminal's ^C does not reach it. -1: all of these are this process's own.
  int output = -1;
  sigset_t signal_mask = {};  // that it starts with
};

// A child process. Told to end (SIGTERM) by the kernel when this process ends, however that happens.
struct Child {
  std::string name;
  pid_t process = 0;
  std::optional<int> end;  // from waitpid, once it has ended
};

// Starts a program. NOT_FOUND if there is none of that name, another error if it cannot be run; then there is
// no child. Call from a thread that lives as long as the process: the kernel takes its end for the parent's.
absl::StatusOr<Child> StartChild(const ChildOptions& options);

// How a process ended, from what waitpid says: "ended with exit code 1", "was killed by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

// As shells have it: the exit code, or 128 + the signal.
int ExitCodeOf(int wait_status);

// The folder this program is in, where the others are too.
std::filesystem::path FolderOfPrograms();

}  // namespace paceline::tool
