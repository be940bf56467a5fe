#include "bench/limits.h"

#include <arpa/inet.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/result.h"
#include "libs/base/status.h"
#include "libs/table/store.h"

namespace paceline::bench {
namespace {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int fd() const { return fd_; }

  bool Write(const char* data, size_t size) const {
    while (size > 0) {
      const ssize_t n = write(fd_, data, size);
      if (n <= 0) return false;
      data += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }
  bool Read(char* data, size_t size) const {
    while (size > 0) {
      const ssize_t n = read(fd_, data, size);
      if (n <= 0) return false;
      data += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

struct Pair {
  Socket client;
  Socket server;
};

absl::StatusOr<Pair> Connected() {
  const auto failed = [](const char* what) {
    return absl::UnavailableError(absl::StrCat("bench: ", what, ": ", std::strerror(errno)));
  };
  Socket listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0) return failed("bind");
  if (listen(listener.fd(), 1) != 0) return failed("listen");
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  Socket client(socket(AF_INET, SOCK_STREAM, 0));
  if (connect(client.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0) return failed("connect");
  Socket server(accept(listener.fd(), nullptr, nullptr));
  if (server.fd() < 0) return failed("accept");
  const int on = 1;
  for (int fd : {client.fd(), server.fd()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return Pair{std::move(client), std::move(server)};
}

}  // namespace

absl::StatusOr<double> RawTcpGBs(size_t message_bytes, size_t total_bytes) {
  constexpr size_t kInFlight = 4;
  ABSL_ASSIGN_OR_RETURN(Pair pair, Connected());
  const size_t messages = total_bytes / message_bytes;
  std::thread server([&pair, messages, message_bytes] {
    std::vector<char> buffer(message_bytes);
    for (size_t i = 0; i < messages; ++i) {
      if (!pair.server.Read(buffer.data(), buffer.size()) || !pair.server.Write("a", 1)) return;
    }
  });
  std::vector<char> buffer(message_bytes, 'x');
  char ack = 0;
  const auto start = std::chrono::steady_clock::now();
  bool ok = true;
  for (size_t i = 0; i < messages && ok; ++i) {
    ok = (i < kInFlight || pair.client.Read(&ack, 1)) && pair.client.Write(buffer.data(), buffer.size());
  }
  for (size_t i = 0; i < std::min(kInFlight, messages) && ok; ++i) ok = pair.client.Read(&ack, 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  server.join();
  if (!ok) return absl::UnavailableError("bench: the TCP connection broke");
  return static_cast<double>(messages * message_bytes) / took.count() / 1e9;
}

absl::StatusOr<double> RawTcpRoundTripUs(int rounds) {
  ABSL_ASSIGN_OR_RETURN(Pair pair, Connected());
  std::thread server([&pair, rounds] {
    char message[4];
    for (int i = 0; i < rounds; ++i) {
      if (!pair.server.Read(message, 4) || !pair.server.Write(message, 4)) return;
    }
  });
  char message[4] = {};
  std::vector<double> us;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!pair.client.Write(message, 4) || !pair.client.Read(message, 4)) break;
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  server.join();
  if (us.empty()) return absl::UnavailableError("bench: the TCP connection broke");
  return Median(std::move(us));
}

namespace {

// Not private to the process: as between two of them.
class FutexWord {
 public:
  void Set(uint32_t value) {
    word_.store(value);
    (void)syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  void Await(uint32_t value) {
    for (uint32_t now = word_.load(); now != value; now = word_.load()) {
      (void)syscall(SYS_futex, &word_, FUTEX_WAIT, now, nullptr, nullptr, 0);
    }
  }

 private:
  std::atomic<uint32_t> word_{0};
};

}  // namespace

double FutexRoundTripUs(int rounds) {
  FutexWord there, back;
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      there.Await(static_cast<uint32_t>(i));
      back.Set(static_cast<uint32_t>(i));
    }
  });
  std::vector<double> us;
  for (int i = 1; i <= rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    there.Set(static_cast<uint32_t>(i));
    back.Await(static_cast<uint32_t>(i));
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  other.join();
  return Median(std::move(us));
}

double MemcpyGBs() {
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<char> from(kBytes, 'a');
  std::vector<char> to(kBytes, 'b');
  const Cost copy = MedianCost(9, OwnCpuSeconds, [&] {
    std::memcpy(to.data(), from.data(), kBytes);
    from[0] = to[kBytes - 1];  // keeps the copy from being dropped
  });
  return static_cast<double>(kBytes) / copy.seconds / 1e9;
}

class BareTable::Rows {
 public:
  Rows(uint32_t dim, uint64_t rows)
      : dim_(dim), store_(TableId(1), {.dim = dim, .rule = table::Sgd{.lr = 0.01f}}, /*ring_bits=*/0) {
    std::vector<uint64_t> keys;
    for (uint64_t first = 0; first < rows; first += keys.size()) {
      keys.clear();
      for (uint64_t key = first; key < std::min(rows, first + kBatch); ++key) keys.push_back(key);
      Update(keys);
    }
  }

  void Update(const std::vector<uint64_t>& keys) {
    values_.resize(keys.size() * dim_, 0.5f);
    store_.Update(absl::MakeConstSpan(keys), absl::MakeConstSpan(values_), Lsn(++version_));
  }
  void Read(const std::vector<uint64_t>& keys) {
    read_.resize(keys.size() * dim_);
    store_.Read(absl::MakeConstSpan(keys), read_.data());
  }

 private:
  static constexpr uint64_t kBatch = 1000;
  const uint32_t dim_;
  table::TableStore store_;
  uint64_t version_ = 0;
  std::vector<float> values_, read_;
};

BareTable::BareTable(uint32_t dim, uint64_t rows) : rows_(std::make_unique<Rows>(dim, rows)) {}
BareTable::~BareTable() = default;

Cost BareTable::Update(const std::vector<std::vector<uint64_t>>& batches) {
  return Measure(OwnCpuSeconds, [&] {
    for (const auto& keys : batches) rows_->Update(keys);
  });
}

Cost BareTable::Read(const std::vector<std::vector<uint64_t>>& batches) {
  return Measure(OwnCpuSeconds, [&] {
    for (const auto& keys : batches) rows_->Read(keys);
  });
}

}  // namespace paceline::bench
