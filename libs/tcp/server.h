#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/carrier/descriptor.h"
#include "libs/carrier/loop.h"
#include "libs/tcp/preamble.h"
#include "libs/world/port.h"

namespace paceline::tcp {

// The shard's end of streams over TCP without gRPC: serves connections that a listener has accepted.
class DirectServer {
 public:
  struct Counts {
    std::atomic<uint64_t> taken = 0;  // streams, since the start
    std::atomic<int64_t> open = 0;    // now
  };
  struct Options {
    std::string peers = "a client";  // who dials there, for messages
    int threads = 1;                 // that carry streams
    uint64_t frame_bytes_max = uint64_t{64} << 20;
    absl::Duration spin_max = absl::Microseconds(50);
    int64_t streams_max = 16'384;  // beyond them a connection is closed at once
    // Shared with other servers, and with a page that may show them for longer than the server lives.
    std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  };
  // nullptr: such streams are not served.
  using NewHandler = std::function<std::shared_ptr<world::AcceptedStream>(world::StreamKind kind)>;

  DirectServer(Options options, NewHandler handler);
  // Ends the streams that are there, and joins the threads.
  ~DirectServer();

  // False: there were no descriptors for its threads; it takes no streams.
  bool running() const;
  // A connection that began with `preamble`, which has been read.
  void Take(carrier::Descriptor connection, const Preamble& preamble);
  // Takes no more streams. Gives those that are there `grace` to get their last answers and be closed by
  // their clients, then ends them.
  void Stop(absl::Duration grace);

 private:
  const Options options_;
  const NewHandler handler_;
  std::vector<std::unique_ptr<carrier::Loop>> loops_;
  std::atomic<uint64_t> next_loop_ = 0;
};

}  // namespace paceline::tcp
