#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/result.h"

namespace paceline::bench {

// A bidirectional gRPC stream and nothing else, both ends in this program or in two: over completion queues,
// with the channel arguments, frame sizes, window and cumulative acknowledgements of Paceline's own streams.
// A frame is one buffer, sent again and again and dropped on receipt. This is the upper bound for a data
// plane on gRPC.
class BareStream {
 public:
  static absl::StatusOr<std::unique_ptr<BareStream>> Open();
  // The client's end alone, of one that was opened by another process of this machine and has this port().
  static std::unique_ptr<BareStream> To(int port);
  ~BareStream();

  int port() const { return port_; }

  // The client sends frames of `frame_bytes`, `total_bytes` in all; blocks until the last is acknowledged.
  absl::StatusOr<Cost> Push(size_t frame_bytes, size_t total_bytes);
  // The client asks for each frame with a small message; blocks until the last has come.
  absl::StatusOr<Cost> Pull(size_t frame_bytes, size_t total_bytes);
  // 8 bytes each way, one message at a time, for `duration`: the microseconds of each, after some that warm
  // it up.
  absl::StatusOr<std::vector<float>> PingPong(absl::Duration duration);

 private:
  class Server;
  class Call;
  BareStream();
  std::unique_ptr<Server> server_;  // null: it is another process
  int port_ = 0;
};

}  // namespace paceline::bench
