#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/result.h"

namespace paceline::bench {

// A bidirectional gRPC stream and nothing else, both ends in this program: over completion queues, with the
// channel arguments, frame sizes, window and cumulative acknowledgements of Paceline's own streams. A frame
// is one buffer, sent again and again and dropped on receipt. This is the upper bound for a data plane on
// gRPC.
class BareStream {
 public:
  static absl::StatusOr<std::unique_ptr<BareStream>> Open();
  ~BareStream();

  // The client sends frames of `frame_bytes`, `total_bytes` in all; blocks until the last is acknowledged.
  absl::StatusOr<Cost> Push(size_t frame_bytes, size_t total_bytes);
  // The client asks for each frame with a small message; blocks until the last has come.
  absl::StatusOr<Cost> Pull(size_t frame_bytes, size_t total_bytes);

 private:
  class Server;
  class Call;
  BareStream();
  std::unique_ptr<Server> server_;
};

}  // namespace paceline::bench
