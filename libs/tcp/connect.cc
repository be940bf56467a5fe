#include "libs/tcp/connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"

namespace paceline::tcp {
namespace {

// The kernel asks an idle peer after so long.
constexpr int kSilenceSeconds = 5;
// As long as gRPC's pings give a peer. A longer time would spare a shard that takes no frames for so long one
// more dial; but the kernel asks a peer that it cannot reach ever more rarely, so once a link is whole again
// it would take as long once more to notice.
constexpr int kSilentMaxMs = 10'000;

void Set(int socket, int level, int option, int value) {
  (void)setsockopt(socket, level, option, &value, sizeof(value));
}

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::UnavailableError(absl::StrCat("'", address, "' is no address; expected HOST:PORT"));
  }
  HostPort split{.host = address.substr(0, colon), .port = address.substr(colon + 1)};
  if (split.host.size() > 2 && split.host.front() == '[' && split.host.back() == ']') {
    split.host = split.host.substr(1, split.host.size() - 2);
  }
  return split;
}

// 0, or errno.
int ConnectTo(int socket, const addrinfo& to, absl::Time until) {
  if (connect(socket, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd connected{.fd = socket, .events = POLLOUT, .revents = 0};
  while (true) {
    const absl::Duration left = until - world::MonotonicNow();
    if (left <= absl::ZeroDuration()) return ETIMEDOUT;
    const int ready = poll(&connected, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready < 0 && errno != EINTR) return errno;
    if (ready > 0) break;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

void SetUp(int socket) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSilenceSeconds);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentMaxMs);
}

absl::StatusOr<carrier::Descriptor> Connect(const std::string& address, absl::Duration timeout) {
  const absl::StatusOr<HostPort> split = Split(address);
  if (!split.ok()) return split.status();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(split->host.c_str(), split->port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot resolve ", split->host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const absl::Time until = world::MonotonicNow() + timeout;
  int64_t left = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) ++left;
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next, --left) {
    carrier::Descriptor socket(
        ::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol));
    if (!socket) {
      error = errno;
      continue;
    }
    SetUp(socket.get());
    const absl::Time now = world::MonotonicNow();
    error = ConnectTo(socket.get(), *at, now + (until - now) / left);
    if (error == 0) return socket;
  }
  return absl::UnavailableError(absl::StrCat("cannot connect: ", std::strerror(error)));
}

}  // namespace paceline::tcp
