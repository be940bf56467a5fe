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

  // Push once this has ended well, as WhenAll(a, b) says of several; not valid(): at once. Until then the
  // push has no place among the others: its clock, and its order among pushes, are those of its start. It
  // takes its room now, though (see PushAsync), and Flush and Finish wait for it. If this ends with an error,
  // nothing is pushed, and the push, and the next Flush or Finish, end with that error.
  Future<void> after = {};
};

struct PullOptions {
  // Read values that hold every update of clocks < min_clock, of every worker, and wait until there are such.
  // Unset: what the table's consistency asks for at this client's clock. Smaller values make more cached rows
  // fit.
  std::optional<uint64_t> min_clock = {};

  uint32_t priority = 0;

  // How long the read may take; unset: ClientOptions::timeout. Then it fails with DEADLINE_EXCEEDED, naming
  // whom it waited for.
  std::optional<absl::Duration> timeout = {};

  // Read once this has ended well; not valid(): at once. What the read must hold and see, its clock and the
  // client's own pushes, is that of its start. If this ends with an error, the pull ends with that error.
  Future<void> after = {};
};

struct PushPullOptions {
  // As in PullOptions, of the rows that come back.
  std::optional<uint64_t> min_clock = {};

  // The rows are to be read after this client's next Tick: they hold what a Pull would wait for then, and
  // serve as its cached rows. The future is ready only when the other workers are that far, and this one has
  // ticked. Workers only.
  bool next_clock = false;

  uint32_t priority = 0;

  // How long the rows may take; unset: ClientOptions::timeout. The push goes on all the same.
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
  // ClientOptions::unacknowledged_bytes_max); in a callback it returns RESOURCE_EXHAUSTED instead. The future
  // may be dropped: Flush and Finish report what no one else asked for.
  //
  // A push to an *aggregated* table is committed when its clock is folded, which takes this worker's own tick
  // and everybody else's. Push therefore returns when it is accepted, not when it is committed; the future of
  // PushAsync completes at the fold, so do not wait for it before Tick. FAILED_PRECONDITION for a client
  // without a clock.
  absl::Status Push(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                    const PushOptions& options = {});
  Future<void> PushAsync(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                         const PushOptions& options = {});

  // -- Pull: the rows of `keys`, in the order of `keys`. --
  //
  // What a value holds and when a pull waits is the table's Consistency. A pull sees every push that this
  // client made before it, committed or not (except under Asp, and of aggregated tables, which show nothing
  // of a clock that is not complete).
  //
  // Rows that this client has pulled before come from its cache (ClientOptions::cache_bytes_max) if they are
  // good enough still: a row is known to hold every update of clocks < m, and a pull at clock c under Ssp{s}
  // takes it as long as m ≥ c − s. Under Add and Sgd what the client pushes is applied to its cached rows
  // too; under the other rules a push makes them unfit, and they are fetched anew. So with s = 0 a row is
  // mostly fetched in each clock, with s = 8 once in nine. A pull that names a min_clock is served by that
  // bound. Never from the cache: pulls under Asp, and those of a client without a clock, that name no
  // min_clock; and ranges of rows of fewer than 32 values, which are fetched faster than looked up. A lookup
  // costs some 20 to 40 ns a row. A table whose rows are hardly ever read again while they are good enough is
  // left out of the cache for a while.
  absl::StatusOr<std::vector<float>> Pull(absl::Span<const uint64_t> keys, const PullOptions& options = {});
  // Into `out`, of keys.size() * dim() floats. After an error its content is undefined.
  absl::Status Pull(absl::Span<const uint64_t> keys, absl::Span<float> out, const PullOptions& options = {});
  Future<std::vector<float>> PullAsync(absl::Span<const uint64_t> keys, const PullOptions& options = {});

  // -- PushPull: a push, and the rows of its keys with the push applied to them, in one round trip. --
  //
  // Row i of the answer is that of keys[i]. It holds what a Pull of this moment would: the push itself, every
  // one this client made before, and what the table's consistency asks for; under Asp too it holds the push.
  // Cached rows become fit again by it. If the connection breaks in between, the push is still applied once,
  // and the rows are asked for anew. An error is that of the push or of the read; Flush reports the former.
  absl::StatusOr<std::vector<float>> PushPull(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                              const PushPullOptions& options = {});
  Future<std::vector<float>> PushPullAsync(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                           const PushPullOptions& options = {});

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
