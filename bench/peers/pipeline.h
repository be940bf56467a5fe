#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/peers/system.h"

namespace paceline::bench::peers {

// A client's side of a protocol whose replies come in the order of the requests.
class Protocol {
 public:
  virtual ~Protocol() = default;
  // The bytes of request `i`; valid until the next call.
  virtual absl::string_view Request(uint64_t i) = 0;
  // Where to read into; not empty.
  virtual absl::Span<char> Room() = 0;
  // That many bytes were read there. Returns how many further replies are complete.
  virtual absl::StatusOr<size_t> Took(size_t bytes) = 0;
};

// One TCP connection over the loopback interface, without delay.
class Connection {
 public:
  static absl::StatusOr<Connection> To(int port);
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  // Makes requests `first`, first + 1 … for `duration`, at least one, `outstanding` at a time; returns when
  // all are answered. UNAVAILABLE if an answer takes more than 30 s. CPU times are not filled in.
  absl::StatusOr<Turn> Run(Protocol& protocol, uint64_t first, size_t outstanding, absl::Duration duration);

 private:
  explicit Connection(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace paceline::bench::peers
