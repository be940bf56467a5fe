#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/peers/pipeline.h"

namespace paceline::bench::peers {

// Requests of one size and answers of another, whose content nobody looks at.
class EchoProtocol final : public Protocol {
 public:
  // `answer_bytes` is at least 1.
  EchoProtocol(size_t request_bytes, size_t answer_bytes);
  // The bytes of a request of `batch` rows: keys and values of a push, answered with 4; the keys of a pull,
  // answered with as many as its values have.
  EchoProtocol(Op op, const Data& data, size_t batch);

  absl::string_view Request(uint64_t) override { return request_; }
  absl::Span<char> Room() override { return absl::MakeSpan(scratch_); }
  absl::StatusOr<size_t> Took(size_t bytes) override;

 private:
  const size_t answer_bytes_;
  std::string request_;
  std::vector<char> scratch_;
  size_t read_ = 0;  // of an answer that is not complete
};

// The server's end: a TCP port on the loopback interface.
class EchoListener {
 public:
  static absl::StatusOr<EchoListener> Open();
  ~EchoListener();
  EchoListener(EchoListener&& other) noexcept;
  EchoListener& operator=(EchoListener&&) = delete;

  int port() const { return port_; }
  // Serves each connection until it ends, with a thread of its own. Returns when it cannot accept another one
  // and all have ended.
  void Serve() const;
  // Lets Serve accept no more connections. For any thread.
  void Stop() const;

 private:
  EchoListener(int fd, int port) : fd_(fd), port_(port) {}
  int fd_;
  int port_;
};

}  // namespace paceline::bench::peers
