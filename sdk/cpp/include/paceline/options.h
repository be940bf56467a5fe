#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace paceline {

// The pauses between retries, of streams to shards and of requests to the coordinator alike. They double from
// the first to the longest, and each is shortened by a random share of up to a half, so that clients that
// failed together do not come back together. If a shard says when to come back, the client does that instead.
// Which failures are retried is not a setting: the client retries everything that may succeed until the
// operation's timeout is over, and nothing is applied twice.
struct RetryPolicy {
  absl::Duration initial_backoff = absl::Milliseconds(10);
  // A takeover takes about a second: longer pauses would delay operations noticeably.
  absl::Duration max_backoff = absl::Seconds(1);
};

// How a program takes part in a training job: argument of Client::Connect, which checks it and returns
// INVALID_ARGUMENT naming the option that is wrong.
//
//   auto client = paceline::Client::Connect({.coordinator = "localhost:7070", .job = "ctr", .workers = 4});
//
// A field that is set here takes precedence over the environment, which takes precedence over the default.
// Options of a single call (PushOptions, PullOptions) take precedence over the client's.
struct ClientOptions {
  // host:port of the coordinator; if there are several, all of them, separated by commas, in any order.
  // Empty: the environment variable PACELINE_COORDINATOR. There is no default.
  std::string coordinator = {};

  // Name of the job: letters, digits and `._-/:`. Only the job's own sessions see its tables. The first
  // session creates the job.
  std::string job = {};

  // A name for operators: status listings show it, and so do the errors of other clients that wait for this
  // one. Empty: "<host name>:<process id>".
  std::string client_name = {};

  // 0: a reader without a clock. It may push and pull. Nobody waits for it, and its reads wait for nobody
  // unless PullOptions::min_clock says so. W ≥ 1: one of W workers that start together. Connect returns when
  // all W have joined. All of them must state the same W. With W = 1 the worker joins at once, beside any
  // workers that are there.
  uint32_t workers = 0;

  // The rank that this worker asks for, 0 .. workers-1; unset: the next free one. Workers only.
  std::optional<uint32_t> rank = {};

  // How long one operation may take, whatever it waits for: restarting shards, slower workers, the
  // coordinator. Then it ends with DEADLINE_EXCEEDED, and the message names what it waited for.
  absl::Duration timeout = absl::Seconds(60);

  // Pauses between retries within that time.
  RetryPolicy retry = {};

  // How long Connect waits for the other workers of a joint start.
  absl::Duration start_timeout = absl::Minutes(5);

  // Bytes of keys and values that may be pushed and not yet acknowledged. A push that would exceed the bound
  // blocks until there is room; a single push larger than the bound waits until it is alone. Pushes to
  // aggregated tables count from the next Tick on, because only that tick can make room for them: the client
  // needs memory for one clock of these updates on top.
  uint64_t unacknowledged_bytes_max = uint64_t{64} << 20;

  // Memory for rows that were pulled and may be read again. A later Pull takes a cached row that still meets
  // its bound from here, without asking a shard. A row counts with its values and some 75 bytes more,
  // or 130 if it was pulled alone. One cache serves all tables of the client; when it is full, rows that were
  // not read lately go. 0: no cache. Table::Pull says which reads it serves.
  uint64_t cache_bytes_max = uint64_t{64} << 20;

  // The most bytes of a slice, 4,096 to 1,032,192: the client cuts pushes into frames of so many bytes, or of
  // half a MiB, and pulls into requests whose answers have so many, and chooses anew after each which goes
  // next (PushOptions::priority). One row is never cut. Large slices cost the least; smaller ones let urgent
  // tensors overtake sooner, which pays where the network is what a job waits for (docs/priorities.md).
  uint64_t slice_bytes = (uint64_t{1} << 20) - (uint64_t{1} << 14);

  // Writes a compact history of this client's pushes, reads and answers to a new file of this name (or
  // name.1, name.2 … if it exists), for `paceline verify`: some 20 bytes per part and pulled piece.
  // Operations wait for the disk if it is too slow. Empty: the environment variable PACELINE_RECORD, or no
  // file.
  std::string record = {};

  // Called with a line of text for the operator: when an operation has waited for some seconds, for whom and
  // why, and again after ever longer times; and when the job did not exist and this client has created it.
  // Called on one of the client's background threads, or on one in a blocking call: return soon, and call
  // nothing that blocks. Unless all streams go over gRPC also on any thread that enters the client or waits
  // for one of its futures, maybe on two at once. Unset: the lines go to standard error.
  std::function<void(const std::string& text)> on_notice = {};

  // Folder of the sockets of shards on this host (paceline-shard --socket-dir). Streams to a shard that has a
  // socket there, of this user, go over shared memory; to the others they go over TCP as always, and a notice
  // says so once for each shard. Empty: the environment variable PACELINE_SOCKET_DIR, or TCP only.
  // docs/shared_memory.md.
  std::string socket_dir = {};

  // Whether streams over TCP go without gRPC (docs/direct_streams.md); those to shards that do not take that
  // go over gRPC. Unset: unless the environment variable PACELINE_DIRECT_STREAMS is 0.
  std::optional<bool> direct_streams = {};
};

}  // namespace paceline
