#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace paceline {

// How long the pauses between tries are, whatever is tried again: streams to shards, questions to the
// coordinator. They double from the first to the longest, each shortened by a random share of up to a half,
// so that many who failed together do not come back together. A shard that says when to come back is obeyed
// instead. What is worth another try is not a setting: everything that may succeed is tried until the
// operation's timeout is over, and nothing is applied twice.
struct RetryPolicy {
  absl::Duration initial_backoff = absl::Milliseconds(10);
  // A takeover is over in about a second: longer pauses would be felt.
  absl::Duration max_backoff = absl::Seconds(1);
};

// How a program takes part in a training job.
//
//   auto client = paceline::Client::Connect({.coordinator = "localhost:7070", .job = "ctr", .workers = 4});
//
// Where a setting can come from several places, a field that is set here wins over the environment, which
// wins over the default. Options of a single call (PushOptions, PullOptions) win over the client's.
struct ClientOptions {
  // host:port of the coordinator; of several, in any order and with commas between. Empty: the environment
  // variable PACELINE_COORDINATOR. There is no default.
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

  // Pauses between tries within that time.
  RetryPolicy retry = {};

  // How long Connect waits for the other workers.
  absl::Duration start_timeout = absl::Minutes(5);

  // Bytes of keys and values that were pushed and are not yet acknowledged. A push that would exceed it
  // blocks until there is room; one larger than all of it goes alone. What was pushed to aggregated tables in
  // the current clock does not count until Tick, for nothing but that tick makes room: the memory for one
  // clock's updates is yours to have.
  uint64_t unacknowledged_bytes_max = uint64_t{64} << 20;

  // Memory for rows that were pulled and may be read again: a later Pull at a bound that a cached row still
  // meets takes it from here, without asking a shard. Counts what a row needs beside its values, some 130
  // bytes. One cache for all tables of the client; beyond it, rows that were not read lately go. 0: no cache.
  // See Table on what is served from it.
  uint64_t cache_bytes_max = uint64_t{64} << 20;

  // Writes a compact history of what this client pushed, read and was told to a new file of this name (or
  // name.1, name.2 … where it exists), for `paceline verify`; some 20 bytes a part and pulled piece. When the
  // disk does not follow, operations wait for it. Empty: the environment variable PACELINE_RECORD, or none.
  std::string record = {};

  // Told in words what people want to hear while it happens: an operation has waited for some seconds, for
  // whom and why, then again after ever longer times; the job did not exist and this client has created it.
  // Called from the client's thread: return soon, and call nothing that blocks. Unset: a line on standard
  // error.
  std::function<void(const std::string& text)> on_notice = {};

  // Reserved for authentication.
  std::string token = {};
};

}  // namespace paceline
