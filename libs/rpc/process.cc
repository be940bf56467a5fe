#include "libs/rpc/process.h"

#include <grpcpp/version_info.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"

namespace paceline::rpc {

sigset_t BlockEndSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return set;
}

void KeepGrpcUp() {
  grpc_init();  // without the grpc_shutdown that belongs to it
}

void ReadIntoLargeBuffers() {
#if GRPC_CPP_VERSION_MAJOR == 1 && (GRPC_CPP_VERSION_MINOR == 51 || GRPC_CPP_VERSION_MINOR == 52)
  setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", /*overwrite=*/0);
#endif
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // on error the limit stays as it is
}

absl::Status WritePortFile(const std::string& path, const std::string& address) {
  if (path.empty()) return absl::OkStatus();
  const std::string part = absl::StrCat(path, ".part");
  {
    std::ofstream file(part);
    file << address << '\n';
    if (!file.flush()) {
      return absl::UnavailableError(
          absl::StrCat("--port-file: cannot write ", part, "; name a file in a folder that may be written"));
    }
  }
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--port-file: ", path, ": ", error.message()));
}

}  // namespace paceline::rpc
