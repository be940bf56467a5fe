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
#include "paceline/key_list.h"
#include "paceline/reduce.h"

namespace paceline {

namespace sdk {
class TableState;
}

// Options of one push.
struct PushOptions {
  // A lower number goes first where the client has a choice; 0, the default, before all others. The client
  // cuts pushes into slices (ClientOptions::slice_bytes) and chooses anew after each, so an urgent push
  // overtakes one that is half sent. It overtakes pushes of its own clock only, and then also those to the
  // same rows: these are applied in another order than they were made. Pushes of equal priority keep theirs.
  //
  // For a network, the index of the layer: what the next forward pass needs first goes first
  // (docs/priorities.md). Give each layer a table of its own, because a pull waits for this client's earlier
  // pushes to its table. From the first push with a priority other than 0 on, the client keeps no rows of the
  // table in its cache, unless it is aggregated. Under Vap the priority is that of the sending only.
  uint32_t priority = 0;

  // How long the caller waits; unset: ClientOptions::timeout. The timeout ends the wait with
  // DEADLINE_EXCEEDED, never the push: the client sends an accepted push until it is committed, and Flush
  // waits for it.
  std::optional<absl::Duration> timeout = {};

  // The push starts once this future has ended with OK; not valid(): at once. WhenAll(a, b) makes one of
  // several. The push gets its clock, and its place in the order of pushes, when it starts. It takes its room
  // at once, though (see PushAsync), and Flush and Finish wait for it. If the future ends with an error,
  // nothing is pushed, and the push, and the next Flush or Finish, end with that error.
  Future<void> after = {};
};

// Options of one pull.
struct PullOptions {
  // The values must hold every update of clocks < min_clock, of every worker; the pull waits until they do.
  // Unset: the bound that the table's consistency sets at this client's clock. With smaller values the cache
  // can serve more rows.
  std::optional<uint64_t> min_clock = {};

  // A lower number goes first, as in PushOptions: among the requests that the client has to send, and among
  // the replies that a shard has ready for this client. A pull is cut into requests of
  // ClientOptions::slice_bytes of values each.
  uint32_t priority = 0;

  // How long the read may take; unset: ClientOptions::timeout. Then it fails with DEADLINE_EXCEEDED, and the
  // message names the worker or shard it waited for.
  std::optional<absl::Duration> timeout = {};

  // The read starts once this future has ended with OK; not valid(): at once. Its clock, and the client's own
  // pushes that it sees, are those of its start. If the future ends with an error, the pull ends with that
  // error.
  Future<void> after = {};
};

// Options of one push that brings its rows back.
struct PushPullOptions {
  // As in PullOptions, for the rows that come back.
  std::optional<uint64_t> min_clock = {};

  // True: the rows are for reads after this client's next Tick. They hold what a Pull would wait for then,
  // and become its cached rows. The future is ready only when this worker has ticked and the others are as
  // far as that Pull needs. Workers only.
  bool next_clock = false;

  // As in PushOptions, for its place among what the client sends; but later pushes to the same segments of
  // the ring do not overtake it.
  uint32_t priority = 0;

  // How long the rows may take; unset: ClientOptions::timeout. The push goes on after that.
  std::optional<absl::Duration> timeout = {};
};

// A table of the client's job, from Client::OpenOrCreate or Client::Open. It is a small handle: copy it
// freely and use it from any number of threads. It may outlive its client; its calls then return CANCELLED.
//
// **Shapes.** A call names its rows by keys, which may come in any order and more than once, or by a range.
// Values are f32, row after row, dim() of them each, in the order of the keys: row i of n rows is values[i *
// dim() .. (i + 1) * dim()). A call takes at most 2^31 rows; empty batches are fine and do nothing.
//
// **Blocking.** Push, Pull, PushPull and their forms for ranges block until their result is there, at most
// for their timeout, and return FAILED_PRECONDITION if a callback calls them. The functions that end in Async
// return a future instead; their operations take effect in the order of the calls, unless `after` says
// otherwise.
//
// **Errors.** A wrong argument (a number of values other than dim() per key, keys outside a ranged table, NaN
// where the table does not accept it) returns INVALID_ARGUMENT or OUT_OF_RANGE with a message that names it,
// and nothing is sent. After the client has failed — it was evicted (ABORTED), or a shard lost acknowledged
// data (DATA_LOSS) — every call returns that failure.
class Table {
 public:
  // For the client itself: programs get tables from OpenOrCreate and Open.
  explicit Table(std::shared_ptr<sdk::TableState> state);

  // The table's name within its job.
  const std::string& name() const;
  // f32 values in a row, as the schema says.
  uint32_t dim() const;
  // True: keys are 0 .. rows() − 1, and the functions for ranges may be used.
  bool ranged() const;
  // Number of rows of a ranged table; 0 for a sparse one.
  uint64_t rows() const;

  // -- Push: applies the table's update rule to the rows of `keys`. --
  //
  // `values` has keys.size() * dim() floats. The call copies keys and values: the caller may reuse its memory
  // as soon as the call returns. A push is not atomic: the client cuts it by segment of the ring, and each
  // piece is applied once, as a whole.
  //
  // Push returns, and the future of PushAsync completes, when every piece is committed: every member that the
  // cluster's acknowledgement mode requires has logged it. PushAsync blocks only while there is no room for
  // its bytes (see ClientOptions::unacknowledged_bytes_max); in a callback it returns RESOURCE_EXHAUSTED
  // instead of blocking. The future may be dropped: Flush and Finish report the first error that nobody asked
  // for.
  //
  // A push to an *aggregated* table is committed when its clock is folded, which needs the next tick of this
  // worker and of all others. Push therefore returns as soon as the push is accepted. The future of PushAsync
  // completes at the fold, so do not wait for it before Tick. FAILED_PRECONDITION for a client without a
  // clock.
  absl::Status Push(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                    const PushOptions& options = {});
  Future<void> PushAsync(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                         const PushOptions& options = {});

  // -- Pull: reads the rows of `keys`, in the order of `keys`. --
  //
  // The table's Consistency decides what a value holds and when a pull waits. A pull sees every earlier push
  // of this client, committed or not. Exceptions are Asp, aggregated tables, which show nothing of a clock
  // that is not complete, and what a PushFilter holds back.
  //
  // Rows that this client has pulled before come from its cache (ClientOptions::cache_bytes_max) if they are
  // still fresh enough. The client knows of each cached row that it holds every update of clocks < m; a pull
  // at clock c under Ssp{s} takes the row as long as m ≥ c − s. Under Add and Sgd the client applies its
  // pushes to its cached rows too; under the other rules a push makes them unfit, and the next pull fetches
  // them. So a row is fetched in almost every clock with s = 0, and once in nine clocks with s = 8. A pull
  // that names a min_clock is served by that bound.
  //
  // The cache never serves pulls that name no min_clock under Asp or from a client without a clock, nor
  // ranges of rows of fewer than 32 values, which are fetched faster than looked up. A lookup costs some 20
  // to 40 ns per row. The client leaves a table out of the cache for a while if its rows are hardly ever read
  // again while they are fresh enough.
  absl::StatusOr<std::vector<float>> Pull(absl::Span<const uint64_t> keys, const PullOptions& options = {});
  // Reads into `out`, which must have keys.size() * dim() floats and live until the call returns. After an
  // error its content is undefined.
  absl::Status Pull(absl::Span<const uint64_t> keys, absl::Span<float> out, const PullOptions& options = {});
  // Copies what it needs of `keys` before it returns; the future owns the values.
  Future<std::vector<float>> PullAsync(absl::Span<const uint64_t> keys, const PullOptions& options = {});
  // Reads into `out`, which must live until the future has ended, whether or not that is awaited; nobody
  // writes to it afterwards. Spares the memory of a result, and filling it with zeros.
  Future<void> PullAsync(absl::Span<const uint64_t> keys, absl::Span<float> out,
                         const PullOptions& options = {});

  // -- PushPull: pushes, and reads the rows of the same keys after the push, in one round trip. --
  //
  // Row i of the answer is that of keys[i]. It holds what a Pull at this moment would: this push, every
  // earlier push of this client, and what the table's consistency asks for; under Asp too it holds the push.
  // The answer makes cached rows fit again. If the connection breaks in between, the push is still applied
  // once, and the client asks for the rows again. An error is that of the push or of the read; Flush reports
  // that of the push.
  absl::StatusOr<std::vector<float>> PushPull(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                              const PushPullOptions& options = {});
  Future<std::vector<float>> PushPullAsync(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                           const PushPullOptions& options = {});

  // -- The same for keys that come again: a batch that is pulled and pushed once an epoch. --
  //
  // MakeKeyList checks the keys, and the first call groups them; the calls that follow do neither. Otherwise
  // they are as above, and the rows are in the order of the keys that the list was made of. A list of another
  // table is INVALID_ARGUMENT. With key lists as a link filter of the table (filters.h) a list that a stream
  // has carried is neither read nor sent again: an epoch of `paceline-bench lr` takes a tenth to a fifth
  // less time than with plain keys.
  absl::StatusOr<KeyList> MakeKeyList(absl::Span<const uint64_t> keys) const;
  absl::Status Push(const KeyList& keys, absl::Span<const float> values, const PushOptions& options = {});
  Future<void> PushAsync(const KeyList& keys, absl::Span<const float> values,
                         const PushOptions& options = {});
  absl::StatusOr<std::vector<float>> Pull(const KeyList& keys, const PullOptions& options = {});
  absl::Status Pull(const KeyList& keys, absl::Span<float> out, const PullOptions& options = {});
  Future<std::vector<float>> PullAsync(const KeyList& keys, const PullOptions& options = {});
  Future<void> PullAsync(const KeyList& keys, absl::Span<float> out, const PullOptions& options = {});
  absl::StatusOr<std::vector<float>> PushPull(const KeyList& keys, absl::Span<const float> values,
                                              const PushPullOptions& options = {});
  Future<std::vector<float>> PushPullAsync(const KeyList& keys, absl::Span<const float> values,
                                           const PushPullOptions& options = {});

  // -- The same for the rows first, first + 1 … of a ranged table. --
  //
  // The number of values, or `count`, gives the number of rows. INVALID_ARGUMENT for a sparse table;
  // OUT_OF_RANGE beyond rows(). No keys travel, so for contiguous rows these cost less than the functions by
  // key.
  //
  // PushRange sends large values from where they lie, without a copy: no other thread may change them before
  // it returns. If its timeout ends the wait, it copies what is not committed before it returns; a callback
  // that blocks one of the client's background threads delays that.
  absl::Status PushRange(uint64_t first, absl::Span<const float> values, const PushOptions& options = {});
  Future<void> PushRangeAsync(uint64_t first, absl::Span<const float> values,
                              const PushOptions& options = {});
  absl::StatusOr<std::vector<float>> PullRange(uint64_t first, uint64_t count,
                                               const PullOptions& options = {});
  absl::Status PullRange(uint64_t first, absl::Span<float> out, const PullOptions& options = {});
  Future<std::vector<float>> PullRangeAsync(uint64_t first, uint64_t count, const PullOptions& options = {});
  Future<void> PullRangeAsync(uint64_t first, absl::Span<float> out, const PullOptions& options = {});

  // -- Reductions: one answer from many rows, computed by the shards. --
  //
  // **Rows.** Of a sparse table those that somebody has pushed to; of a ranged one all, with their initial
  // values if nobody has. The rule's slots do not count. A maximum or minimum of no rows at all is
  // FAILED_PRECONDITION. −0 counts as 0. A NaN makes any answer NaN but that of kRows and kNonZeros, and is
  // left out of a TopK.
  //
  // **Exact.** A sum is that of the values, without rounding in between, rounded once to a double. So the
  // same rows give the same bits, whichever shard serves them and in whatever order they came.
  //
  // **Consistency.** As that of a Pull of all these rows: the table's Consistency decides when it waits, and
  // it sees every earlier push of this client (not under Asp). A segment answers in slices of 65,536 values
  // or a few more, and each slice is as of one version of the segment, which a certificate names. So an
  // answer is a picture of one moment within a slice only; what it holds beyond the promise may differ
  // between slices. Under Bsp it is exact: all updates of smaller clocks, and no others. If a segment gets
  // another primary meanwhile it is gone through again.
  //
  // **Cost.** The shards go through all rows, of a sparse table also for a range of keys, at a few
  // nanoseconds a value, between other work: a push waits for one slice at most. What travels is some 300
  // bytes for each slice, and 16 k more for a TopK. The cache takes no part.
  //
  // **Errors.** OUT_OF_RANGE: a range beyond rows(). INVALID_ARGUMENT: a count of 0, a column that rows do
  // not have, a k of 0 or above kTopKMax. FAILED_PRECONDITION: the client has opened the table with Vap; pull
  // its rows instead. DEADLINE_EXCEEDED, as of a Pull. UNIMPLEMENTED: some shard is of an earlier release.
  absl::StatusOr<Reduced> Reduce(Reduction reduction, const ReduceOptions& options = {});
  Future<Reduced> ReduceAsync(Reduction reduction, const ReduceOptions& options = {});
  // The k largest values, or as many as there are: the largest first, and of equal ones the one of the
  // smallest key, then column.
  absl::StatusOr<std::vector<TopValue>> TopK(uint32_t k, TopBy by = TopBy::kValue,
                                             const ReduceOptions& options = {});
  Future<std::vector<TopValue>> TopKAsync(uint32_t k, TopBy by = TopBy::kValue,
                                          const ReduceOptions& options = {});

 private:
  std::shared_ptr<sdk::TableState> state_;
};

}  // namespace paceline
