#include "bench/peers/echo.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "libs/base/little_endian.h"

namespace paceline::bench::peers {
namespace {

// A request begins with the bytes that follow, and those of its answer.
constexpr size_t kHeaderBytes = 16;
constexpr size_t kScratchBytes = size_t{1} << 20;
constexpr size_t kAnswerBytes = 4;  // of a push

bool ReadAll(int fd, char* to, size_t size) {
  while (size > 0) {
    const ssize_t n = read(fd, to, size);
    if (n <= 0) return false;
    to += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const char* from, size_t size) {
  while (size > 0) {
    const ssize_t n = send(fd, from, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    from += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// One request; false: the connection has ended.
bool Answer(int fd, std::vector<char>& scratch) {
  char header[kHeaderBytes];
  if (!ReadAll(fd, header, sizeof(header))) return false;
  for (uint64_t left = LoadU64(header); left > 0;) {
    const size_t some = std::min<uint64_t>(left, scratch.size());
    if (!ReadAll(fd, scratch.data(), some)) return false;
    left -= some;
  }
  for (uint64_t left = LoadU64(header + 8); left > 0;) {
    const size_t some = std::min<uint64_t>(left, scratch.size());
    if (!WriteAll(fd, scratch.data(), some)) return false;
    left -= some;
  }
  return true;
}

size_t KeyBytes(const Data& data, size_t batch) {
  return data.dense ? 0 : batch * sizeof(uint64_t);
}

size_t ValueBytes(const Data& data, size_t batch) {
  return (data.dense ? data.rows : batch) * data.dim * sizeof(float);
}

void ServeConnection(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::vector<char> scratch(kScratchBytes, 'y');
  while (Answer(fd, scratch)) {
  }
  close(fd);
}

}  // namespace

EchoProtocol::EchoProtocol(Op op, const Data& data, size_t batch)
    : EchoProtocol(KeyBytes(data, batch) + (op == Op::kPush ? ValueBytes(data, batch) : 0),
                   op == Op::kPush ? kAnswerBytes : ValueBytes(data, batch)) {}

EchoProtocol::EchoProtocol(size_t request_bytes, size_t answer_bytes)
    : answer_bytes_(answer_bytes), request_(kHeaderBytes + request_bytes, 'x'), scratch_(kScratchBytes) {
  StoreU64(request_bytes, request_.data());
  StoreU64(answer_bytes, request_.data() + 8);
}

absl::StatusOr<size_t> EchoProtocol::Took(size_t bytes) {
  read_ += bytes;
  const size_t answers = read_ / answer_bytes_;
  read_ %= answer_bytes_;
  return answers;
}

absl::StatusOr<EchoListener> EchoListener::Open() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "peers: socket");
  EchoListener listener(fd, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "peers: listen");
  }
  listener.port_ = ntohs(address.sin_port);
  return listener;
}

EchoListener::~EchoListener() {
  if (fd_ >= 0) close(fd_);
}
EchoListener::EchoListener(EchoListener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}

void EchoListener::Serve() const {
  std::vector<std::jthread> connections;
  while (true) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      connections.emplace_back(ServeConnection, fd);
    } else if (errno != EINTR) {
      return;
    }
  }
}

void EchoListener::Stop() const {
  shutdown(fd_, SHUT_RDWR);
}

}  // namespace paceline::bench::peers
