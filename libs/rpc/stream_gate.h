#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "libs/base/mutex.h"

namespace paceline::rpc {

// Limits the streams that a server takes. gRPC limits the open streams of a connection, but only for clients
// that obey HTTP/2. This class limits them for every client, limits the streams of all connections together,
// and limits how fast a connection may begin new ones: a client that begins and resets streams in a loop
// never has many open, yet could take all of the server's time. Thread-safe.
class StreamGate {
 public:
  struct Limits {
    int64_t all = 16'384;
    int64_t of_one_connection = 512;
    int64_t begun_in_a_second = 1'024;  // by one connection
  };
  struct Verdict {
    absl::Status taken;  // kResourceExhausted, with the limit: refused
    bool cut = false;    // cut the connection; set only once per connection
  };
  using Time = std::chrono::steady_clock::time_point;

  StreamGate() = default;
  explicit StreamGate(Limits limits) : limits_(limits) {}

  // The connection `peer` begins a stream. Call End once for each Begin, also for a refused stream.
  Verdict Begin(const std::string& peer, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    int64_t open = 0;
    int64_t begun = 0;  // in the second that began at `since`
    Time since;
    bool cut = false;
  };
  // Forgets connections without open streams that began none within the last second.
  void ForgetOld(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  Mutex mutex_;
  std::map<std::string, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  int64_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  Time forgot_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::rpc
