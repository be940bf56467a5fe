#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "libs/base/mutex.h"

namespace paceline::rpc {

// How many streams a server takes. gRPC bounds those that are open on one connection, if its client keeps to
// what it is told; this bounds them whatever the client does, those of all connections together, and how fast
// a connection may begin new ones: a client that begins and resets them without end never has many open, and
// keeps the server busy with nothing else. Thread-safe.
class StreamGate {
 public:
  struct Limits {
    int64_t all = 16'384;
    int64_t of_one_connection = 512;
    int64_t begun_in_a_second = 1'024;  // by one connection
  };
  struct Verdict {
    absl::Status taken;  // kResourceExhausted: why not
    bool cut = false;    // the connection is to be cut; said once
  };
  using Time = std::chrono::steady_clock::time_point;

  StreamGate() = default;
  explicit StreamGate(Limits limits) : limits_(limits) {}

  // A stream of the connection `peer` begins. End belongs to each of them, taken or not.
  Verdict Begin(const std::string& peer, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    int64_t open = 0;
    int64_t begun = 0;  // in the second that began at `since`
    Time since;
    bool cut = false;
  };
  // Those that have gone: what they began last is of no interest any more.
  void ForgetOld(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  Mutex mutex_;
  std::map<std::string, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  int64_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  Time forgot_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::rpc
