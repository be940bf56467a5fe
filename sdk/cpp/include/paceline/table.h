#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "paceline/future.h"

namespace paceline {

namespace sdk {
class TableState;
}

struct PushOptions {
  // Higher goes first where there is a choice; 0 is normal. Pushes to the same rows keep their order whatever
  // their priority.
  uint32_t priority = 0;

  // How long the caller waits; unset: ClientOptions::timeout. Its end is the end of the wait, never of the
  // push: a push that was accepted is sent until it is committed, and Flush waits for it.
  std::optional<absl::Duration> timeout = {};
};

struct PullOptions {
  // Read values that hold every update of clocks < min_clock, of every worker, and wait until there are such.
  // Unset: what the table's consistency asks for at this client's clock.
  std::optional<uint64_t> min_clock = {};

  uint32_t priority = 0;

  // How long the read may take; unset: ClientOptions::timeout. Then it fails with DEADLINE_EXCEEDED, naming
  // whom it waited for.
  std::optional<absl::Duration> timeout = {};
};

// A table of the client's job. A small value: copy it freely, use it from any number of threads. It may
// outlive its client; then its calls return CANCELLED.
//
// Keys may come in any order, and more than once. Values are row after row, dim() floats each, in the order
// of the keys. Empty batches are fine and do nothing.
//
// What is wrong with an argument (values that are not dim() per key, keys outside a ranged table, NaN where
// it is not accepted) is returned as INVALID_ARGUMENT or OUT_OF_RANGE naming it, and nothing is sent. After
// the client has failed — it was evicted (ABORTED), or a shard lost acknowledged data (DATA_LOSS) — every
// call returns that failure.
class Table {
 public:
  explicit Table(std::shared_ptr<sdk::TableState> state);

  const std::string& name() const;
  uint32_t dim() const;
  bool ranged() const;
  // Of a ranged table; 0 for a sparse one.
  uint64_t rows() const;

  // -- Push: applies the table's update rule to the rows of `keys`. --
  //
  // The keys and values are copied: the caller's memory is free again when the call returns. A push is not
  // atomic: it is cut by segment of the ring, each piece is applied once and whole.
  //
  // Push returns, and the future of PushAsync completes, when every piece is committed: logged by every
  // member that the cluster's acknowledgement mode names. PushAsync blocks only for room (see
  // ClientOptions::unacknowledged_bytes_max); on a thread that runs callbacks it returns RESOURCE_EXHAUSTED
  // instead. The future may be dropped: Flush and Finish report what no one else asked for.
  absl::Status Push(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                    const PushOptions& options = {});
  Future<void> PushAsync(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                         const PushOptions& options = {});

  // -- Pull: the rows of `keys`, in the order of `keys`. --
  //
  // What a value holds and when a pull waits is the table's Consistency. A pull sees every push that this
  // client made before it, committed or not (except under Asp).
  absl::StatusOr<std::vector<float>> Pull(absl::Span<const uint64_t> keys, const PullOptions& options = {});
  // Into `out`, of keys.size() * dim() floats. After an error its content is undefined.
  absl::Status Pull(absl::Span<const uint64_t> keys, absl::Span<float> out, const PullOptions& options = {});
  Future<std::vector<float>> PullAsync(absl::Span<const uint64_t> keys, const PullOptions& options = {});

  // -- The same for the rows first, first + 1 … of a ranged table. --
  absl::Status PushRange(uint64_t first, absl::Span<const float> values, const PushOptions& options = {});
  Future<void> PushRangeAsync(uint64_t first, absl::Span<const float> values,
                              const PushOptions& options = {});
  absl::StatusOr<std::vector<float>> PullRange(uint64_t first, uint64_t count,
                                               const PullOptions& options = {});
  absl::Status PullRange(uint64_t first, absl::Span<float> out, const PullOptions& options = {});
  Future<std::vector<float>> PullRangeAsync(uint64_t first, uint64_t count, const PullOptions& options = {});

 private:
  std::shared_ptr<sdk::TableState> state_;
};

}  // namespace paceline
