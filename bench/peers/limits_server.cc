// The process that answers what the machine's limits are measured with.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "bench/grpc_limit.h"
#include "bench/peers/echo.h"
#include "bench/peers/machine_systems.h"

namespace paceline::bench::peers {
namespace {

// Writes a line to the Unix socket of that name.
bool Say(const std::string& path, const std::string& line) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool said = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                    send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  close(fd);
  return said;
}

}  // namespace

int ServePeersLimits(const std::string& control) {
  const absl::StatusOr<EchoListener> tcp = EchoListener::Open();
  const absl::StatusOr<std::unique_ptr<BareStream>> grpc = BareStream::Open();
  for (const absl::Status& status : {tcp.status(), grpc.status()}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "paceline-bench: %s\n", status.ToString().c_str());
    return 1;
  }
  if (!Say(control, absl::StrCat(tcp->port(), " ", (*grpc)->port(), "\n"))) {
    std::fprintf(stderr, "paceline-bench: --control: nobody listens at %s\n", control.c_str());
    return 1;
  }
  while (tcp->ServeOne()) {
  }
  return 1;
}

}  // namespace paceline::bench::peers
