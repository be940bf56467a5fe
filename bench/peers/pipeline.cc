#include "bench/peers/pipeline.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::bench::peers {
namespace {

constexpr int kPatienceMs = 30'000;

// Sends what fits at this moment.
absl::Status SendSome(int fd, absl::string_view& out) {
  const ssize_t n = send(fd, out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) return absl::ErrnoToStatus(errno, "peers: send");
  if (n > 0) out.remove_prefix(static_cast<size_t>(n));
  return absl::OkStatus();
}

// Waits until there is something to read, or room to send if `sending`.
absl::Status Await(int fd, bool sending) {
  pollfd file{.fd = fd, .events = static_cast<short>(sending ? POLLIN | POLLOUT : POLLIN), .revents = 0};
  const int ready = poll(&file, 1, kPatienceMs);
  if (ready == 0) return absl::UnavailableError("peers: the server has not answered for 30 s");
  if (ready < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "peers: poll");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Connection> Connection::To(int port) {
  Connection connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int on = 1;
  const timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = 0};
  if (connection.fd_ < 0 ||
      connect(connection.fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      setsockopt(connection.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      setsockopt(connection.fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("peers: port ", port));
  }
  return connection;
}

Connection::~Connection() {
  if (fd_ >= 0) close(fd_);
}
Connection::Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

absl::StatusOr<Turn> Connection::Run(Protocol& protocol, uint64_t first, size_t outstanding,
                                     absl::Duration duration) {
  Turn turn;
  std::deque<absl::Time> began;  // of the requests under way
  absl::string_view out;         // of the newest one
  uint64_t next = first;
  const absl::Time start = world::MonotonicNow();
  bool over = false;
  while (true) {
    if (out.empty() && !over && began.size() < outstanding) {
      began.push_back(world::MonotonicNow());
      over = next != first && began.back() - start >= duration;
      if (over) {
        began.pop_back();
        continue;
      }
      out = protocol.Request(next++);
    }
    if (out.empty() && began.empty()) break;
    if (!out.empty()) ABSL_RETURN_IF_ERROR(SendSome(fd_, out));
    const bool may_send = !out.empty() || (!over && began.size() < outstanding);
    const absl::Span<char> room = protocol.Room();
    // With nothing else to do the read itself waits, as in a program that has one request at a time.
    const ssize_t n = recv(fd_, room.data(), room.size(), may_send ? MSG_DONTWAIT : 0);
    if (n == 0) return absl::UnavailableError("peers: the server closed the connection");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return absl::ErrnoToStatus(errno, "peers: recv");
      if (!may_send) return absl::UnavailableError("peers: the server has not answered for 30 s");
      if (!out.empty()) ABSL_RETURN_IF_ERROR(Await(fd_, /*sending=*/true));
      continue;
    }
    ABSL_ASSIGN_OR_RETURN(const size_t replies, protocol.Took(static_cast<size_t>(n)));
    if (replies > began.size())
      return absl::InternalError("peers: more replies came than requests were made");
    const absl::Time now = world::MonotonicNow();
    for (size_t i = 0; i < replies; ++i, began.pop_front()) {
      turn.us.push_back(static_cast<float>(absl::ToDoubleMicroseconds(now - began.front())));
    }
  }
  turn.seconds = absl::ToDoubleSeconds(world::MonotonicNow() - start);
  return turn;
}

}  // namespace paceline::bench::peers
