#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace paceline {

// How a program takes part in a training job.
//
//   auto client = paceline::Client::Connect({.coordinator = "localhost:7070", .job = "ctr", .workers = 4});
//
// Where a setting can come from several places, a field that is set here wins over the environment, which
// wins over the default. Options of a single call (PushOptions, PullOptions) win over the client's.
struct ClientOptions {
  // host:port of a coordinator. Empty: the environment variable PACELINE_COORDINATOR. There is no default.
  std::string coordinator = {};

  // Name of the job: its tables are seen by its own sessions only. The first session creates it.
  std::string job = {};

  // For people: appears in status listings and in the errors of others who wait for this client. Empty:
  // "<host name>:<process id>".
  std::string client_name = {};

  // 0: a reader without a clock. It may push and pull; nobody waits for it, and its reads wait for nobody
  // unless a PullOptions says so.
  // W ≥ 1: a worker, one of W that start together. Connect returns when all W have joined. All of them must
  // name the same W. With 1 the worker joins at once, beside any others.
  uint32_t workers = 0;

  // The rank this worker would like, 0 .. workers-1; unset: the next free one. Workers only.
  std::optional<uint32_t> rank = {};

  // How long one operation may take, whatever it waits for: shards that restart, slower workers, the
  // coordinator. Its error names what it waited for.
  absl::Duration timeout = absl::Seconds(60);

  // How long Connect waits for the other workers.
  absl::Duration start_timeout = absl::Minutes(5);

  // Bytes of keys and values that were pushed and are not yet acknowledged. A push that would exceed it
  // blocks until there is room; one larger than all of it goes alone.
  uint64_t unacknowledged_bytes_max = uint64_t{64} << 20;

  // Reserved for authentication.
  std::string token = {};
};

}  // namespace paceline
