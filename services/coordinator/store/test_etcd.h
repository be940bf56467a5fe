#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::coordinator {

// A real etcd of one member for a test: a process on free ports of the loopback interface, with a directory
// of its own. Ends with the test, also if that crashes.
class TestEtcd {
 public:
  // UNAVAILABLE with the end of its log if it does not answer, NOT_FOUND if there is no etcd to run.
  static absl::StatusOr<std::unique_ptr<TestEtcd>> Start(std::vector<std::string> flags = {});
  ~TestEtcd();

  // HOST:PORT for clients.
  const std::string& endpoint() const { return endpoint_; }

  // SIGKILL; what it acknowledged is in its directory.
  void Kill();
  // The same ports and directory. REQUIRES: it does not run.
  absl::Status Restart();
  // SIGSTOP and SIGCONT: connections stay, nothing answers.
  void Pause();
  void Resume();

 private:
  TestEtcd() = default;
  absl::Status Run();
  bool Answers() const;
  std::string Log() const;

  std::string dir_;
  std::string endpoint_;
  std::string peer_;
  std::vector<std::string> flags_;
  pid_t pid_ = 0;
};

}  // namespace paceline::coordinator
