#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// Processes that a system consists of; their output goes to files in `folder`, and they end with this. For
// one thread.
class Processes {
 public:
  // Both must outlive it.
  Processes(tool::Supervisor& supervisor, std::filesystem::path folder)
      : supervisor_(supervisor), folder_(std::move(folder)) {}
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  absl::StatusOr<pid_t> Start(const std::string& name, std::vector<std::string> arguments);
  // Returns when `file` can be read, or after `timeout` (false). An error, with the end of its output, if a
  // process ended.
  absl::StatusOr<bool> AwaitReadable(int file, absl::Duration timeout);

 private:
  std::string EndOfLog(const std::string& name) const;

  tool::Supervisor& supervisor_;
  const std::filesystem::path folder_;
  std::vector<const tool::Child*> children_;
};

// Our end of a Unix socket to which one process connects: lines both ways, and numbers after a line.
class Control {
 public:
  // `path` must not exist, and be short: Unix sockets' names are.
  static absl::StatusOr<std::unique_ptr<Control>> Listen(const std::filesystem::path& path);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Waits for the process to connect.
  absl::Status Accept(Processes& processes, absl::Duration timeout);
  absl::Status Send(const std::string& line);
  absl::StatusOr<std::string> ReadLine(Processes& processes, absl::Duration timeout);
  // Waits for an answer, a line of "ok" and numbers, and returns these. An error, which names `who`: it is
  // another one, or there was none within two minutes.
  absl::StatusOr<std::vector<double>> ReadAnswer(Processes& processes, absl::string_view who);
  // What comes after the line that was read last.
  absl::Status ReadNumbers(absl::Span<float> numbers);

 private:
  explicit Control(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  int listener_ = -1;
  int socket_ = -1;
  std::string read_;  // beyond the last line
};

// The process's end of a Control. For one thread.
class ControlEnd {
 public:
  static absl::StatusOr<ControlEnd> Connect(const std::string& path);
  ~ControlEnd();
  ControlEnd(ControlEnd&& other) noexcept;
  ControlEnd& operator=(ControlEnd&&) = delete;

  absl::Status Send(const std::string& line) const;
  // Waits for a line. nullopt: whoever gives orders has gone.
  std::optional<std::string> ReadLine();

 private:
  explicit ControlEnd(FILE* file) : file_(file) {}
  FILE* file_;
};

// Writes a file for another process.
absl::Status WriteBytes(const std::filesystem::path& file, absl::string_view bytes);
// The same of numbers, as they are in memory.
template <typename T>
absl::Status WriteNumbers(const std::filesystem::path& file, const std::vector<T>& numbers) {
  return WriteBytes(
      file, absl::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)));
}

// A port on the loopback interface that nobody has, for programs that cannot choose one themselves. Somebody
// else may take it before they do.
absl::StatusOr<int> FreePort();

}  // namespace paceline::bench::peers
