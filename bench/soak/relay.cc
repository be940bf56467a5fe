#include "bench/soak/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "libs/rpc/process.h"

namespace paceline::bench {
namespace {

constexpr size_t kPieceBytes = 16 << 10;
// A slow link delays each piece by this: some 3 MB/s.
constexpr absl::Duration kSlow = absl::Milliseconds(5);

std::atomic<bool> slow = false;

class Socket {
 public:
  explicit Socket(int file) : file_(file) {}
  ~Socket() {
    if (file_ >= 0) close(file_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int file() const { return file_; }

 private:
  const int file_;
};

std::optional<sockaddr_in> AddressOf(const std::string& host_port) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(host_port, absl::MaxSplits(':', 1));
  uint32_t port = 0;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  if (!absl::SimpleAtoi(parts.second, &port) || port > UINT16_MAX) return std::nullopt;
  if (inet_pton(AF_INET, parts.first.c_str(), &address.sin_addr) != 1) return std::nullopt;
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

std::shared_ptr<Socket> Connect(const std::string& to_file) {
  std::string line;
  std::getline(std::ifstream(to_file) >> std::ws, line);
  const auto address = AddressOf(line);
  if (!address.has_value()) return nullptr;
  auto socket = std::make_shared<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* to = reinterpret_cast<const sockaddr*>(&*address);
  return connect(socket->file(), to, sizeof(*address)) == 0 ? socket : nullptr;
}

bool WriteAll(int file, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = send(file, bytes, size, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

// Copies bytes from one end to the other until either of them closes.
void Pump(const std::shared_ptr<Socket>& from, const std::shared_ptr<Socket>& to) {
  std::array<char, kPieceBytes> piece;
  while (true) {
    const ssize_t read = recv(from->file(), piece.data(), piece.size(), 0);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) break;
    if (slow) absl::SleepFor(kSlow);
    if (!WriteAll(to->file(), piece.data(), static_cast<size_t>(read))) break;
  }
  shutdown(to->file(), SHUT_RDWR);
  shutdown(from->file(), SHUT_RDWR);
}

void Serve(std::shared_ptr<Socket> client, const std::string& to_file) {
  const std::shared_ptr<Socket> server = Connect(to_file);
  if (server == nullptr) return;  // the process behind the relay is not there
  for (const auto& socket : {client, server}) {
    const int on = 1;
    setsockopt(socket->file(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  std::thread(Pump, client, server).detach();  // as many as there are connections; all end with the process
  std::thread(Pump, server, client).detach();
}

int Fail(const char* what) {
  std::perror(what);
  return 1;
}

}  // namespace

int RunRelay(const RelayOptions& options) {
  std::signal(SIGUSR1, [](int) { slow = true; });
  std::signal(SIGUSR2, [](int) { slow = false; });
  const auto address = AddressOf(options.listen);
  if (!address.has_value()) {
    std::fprintf(stderr, "--listen: %s is no IPv4 HOST:PORT\n", options.listen.c_str());
    return 1;
  }
  const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.file(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in bound = *address;
  if (bind(listener.file(), reinterpret_cast<sockaddr*>(&bound), sizeof(bound)) != 0) return Fail("bind");
  if (listen(listener.file(), SOMAXCONN) != 0) return Fail("listen");
  socklen_t size = sizeof(bound);
  if (getsockname(listener.file(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return Fail("getsockname");
  std::array<char, INET_ADDRSTRLEN> host = {};
  inet_ntop(AF_INET, &bound.sin_addr, host.data(), host.size());
  const absl::Status written =
      rpc::WritePortFile(options.port_file, absl::StrCat(host.data(), ":", ntohs(bound.sin_port)));
  if (!written.ok()) {
    std::fprintf(stderr, "%s\n", written.ToString().c_str());
    return 1;
  }
  while (true) {
    auto client = std::make_shared<Socket>(accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client->file() >= 0) {
      Serve(std::move(client), options.to_file);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return Fail("accept");
    }
  }
}

}  // namespace paceline::bench
