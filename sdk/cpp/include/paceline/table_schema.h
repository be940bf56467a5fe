#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "paceline/filters.h"
#include "paceline/push_filter.h"
#include "paceline/rules.h"

// Describes a table: its rows, its update rule, and how this client reads it. The first OpenOrCreate creates
// the table. A later one with another schema is refused with ALREADY_EXISTS, and the message names the field
// that differs. Consistency and filters are not part of the stored schema: they say how *this* client reads
// and pushes, and how its keys and values travel. All of these are plain values; OpenOrCreate checks them.
namespace paceline {

// -- Consistency: what a worker at clock c gets to read, and when it waits. --

// Stale synchronous parallel (Ho et al., NIPS 2013). A read holds at least all updates of clocks < c −
// staleness, of every worker, and all updates of the reader's own. It waits only for a worker that is further
// behind than that. A client without a clock waits for no worker, but still reads all updates of its own.
// Reads of an aggregated table hold nothing of a clock that is not complete, the reader's own updates
// included.
struct Ssp {
  uint64_t staleness = 0;  // in clocks

  // False: a row from the client's cache may lack updates that this client has pushed since it read the row,
  // so that its own updates too may be up to `staleness` clocks late. True: under rules other than Add and
  // Sgd a push makes a cached row unfit, and a worker that pushes all rows that it pulls gains nothing from
  // its cache.
  bool read_my_writes = true;

  // When this worker has to wait for the others, it waits until they are at most so many clocks behind.
  // Unset: `staleness`, so it waits no longer than the bound asks. A worker that stays at its bound fetches
  // rows that are too old at its next clock: it gains nothing from its cache, and waits at every clock. With
  // a smaller value, half the staleness for example, it waits once for several clocks, whenever what it
  // fetched last is about to become too old. Values above `staleness` have no effect.
  std::optional<uint64_t> catch_up = std::nullopt;

  // True: if rows in the client's cache are too old for a read, the client asks the shard which of them have
  // changed, instead of fetching each of them again. Use it for tables of which a worker reads many rows that
  // seldom change, such as sparse models with L1, over a network whose bytes cost more than both sides' CPU
  // time: the shard compares each row that is pushed with what it was, and sends what has changed, read or
  // not. It works for sparse tables that are applied on arrival, and has no effect on others.
  bool refresh = false;

  // True: the bound follows how long the job's workers wait for one another, from 1 up to `staleness`. It
  // begins at 8. The coordinator chooses the next one, and all segments agree on the clock from which on it
  // counts; a larger one counts as soon as the client is told of it (docs/consistency.md). So a read promises
  // what it promises under `staleness`, and mostly more; `catch_up` is scaled down with the bound. Needs
  // shards of feature level 2, otherwise the bound stays as it began.
  bool adaptive = false;
};

// Eager stale synchronous parallel (Dai et al., AAAI 2015). Reads promise what they promise under Ssp, and
// are fresher: shards send the rows that this client has read again as the job's min clock advances, and the
// client keeps them up to date in its cache. A read within the bound takes them from there, without a round
// trip; any other is a pull as under Ssp. It needs a cache (ClientOptions::cache_bytes_max) and shards of
// feature level 2, and works for sparse tables, aggregated ones too; a ranged one it reads as Ssp does.
struct Essp {
  uint64_t staleness = 0;  // in clocks
  // A shard sends what has changed when the min clock has advanced so many times. Unset: half of `staleness`,
  // rounded up, and at least 1. With 1 values are as fresh as they can be, and a row that changes in every
  // clock is sent in every clock.
  std::optional<uint32_t> every = std::nullopt;
  bool read_my_writes = true;  // as Ssp::read_my_writes
  // At most so many bytes of rows (8 for a key, 4 for each value) are sent each time, of the whole table: an
  // equal share of each segment of the ring, and at least one row of each. Of the rows that have changed
  // those go first that were moved most since they were last sent, relative to themselves. The others keep
  // the age that they have until their turn comes, and are pulled if they become too old for a read. 0: all
  // that have changed are sent.
  uint64_t budget_bytes = 0;
};

// Asynchronous: a read returns the newest values that the shard has. It promises nothing, and nobody waits.
struct Asp {};

// Bulk synchronous (Valiant, CACM 1990). A read holds *exactly* every worker's updates of clocks < c, of all
// workers that were not evicted, and waits until all have ticked c times. The table must be aggregated:
// OpenOrCreate makes it so, and Open refuses any other. A read stays exact if Tick is called while it is
// under way: the client sends the tick once the read is answered. After Finish, with PullOptions::min_clock,
// and for a client without a clock, a read holds *at least* the updates of smaller clocks than it asks for.
struct Bsp {};

// Value-bounded asynchronous parallel (Dai et al., AAAI 2015). It bounds values, not clocks: of what this
// client has pushed to a row, the part that not every reader of the table has *seen* sums up to at most `v`,
// or it is a single update. An update is seen when no reader may still be handed a value without it. Updates
// are measured as they are pushed, by their largest absolute value: under Sgd these are gradients, so the
// values of the row differ by `v` times the rate. A push that would exceed the bound blocks, like one that
// finds no room, until the others have seen enough (Stats::wait.value_bound); so does PushAsync, and on a
// callback's thread it fails with RESOURCE_EXHAUSTED. Nobody waits for a reader that is silent for a second:
// such a reader is handed no values until it has asked again.
//
// It holds among the clients that open the table with Vap. Others may read and push as they like: they
// neither wait nor are waited for. Reads return the newest values, hold this client's own pushes, and are
// never taken from its cache. The table must be applied on arrival, and all shards must be of feature
// level 2.
struct Vap {
  double v = 0;        // more than 0
  bool decay = false;  // the bound is v / √t for a worker in its t-th clock
};

using Consistency = std::variant<Ssp, Asp, Bsp, Essp, Vap>;

// -- Tables --
//
// **Aggregated** tables keep the updates of a clock, of all workers, until every worker has ticked past it,
// and then fold them into one update. The fold adds up the rows of each key: by worker, in the order of
// ranks, each worker's in the order of its pushes, in f32. So the result does not depend on which worker was
// faster. With `mean` it divides the sum by the number of workers that took part in the clock, whether they
// pushed that key or not. The update rule is applied once to the result: Adagrad sees the square of the sum,
// not the sum of the squares, and Assign with `mean` averages models. Only workers push to aggregated tables;
// a pushed row can be read from the next clock on.

// A table with any 64-bit keys. The first push of a key creates its row; pulling a key without a row returns
// the initial value and stores nothing.
struct Sparse {
  uint32_t dim = 1;  // f32 values in a row, at least 1
  Initialiser init = Zeros{};
  Rule rule = Add{};
  Consistency consistency = Ssp{};
  bool aggregated = false;  // implied by Bsp
  bool mean = false;        // fold by mean instead of sum; aggregated tables only
  // Accept updates with NaN and infinities. Otherwise such a push is refused with INVALID_ARGUMENT. The shard
  // does not check whether finite updates add up to more than an f32 holds (docs/rules.md).
  bool accept_non_finite = false;
  uint64_t seed = 0;  // of the initialiser; 0: the coordinator chooses one, another for each table
  // What this client holds back of its pushes.
  PushFilter push_filter = {};
  // How keys and values travel between this client and the shards.
  LinkFilters link_filters = {};
};

// A table with keys 0 .. rows−1, stored in contiguous blocks, so that it can also be pushed and pulled by
// range. The fields without a comment mean the same as in Sparse.
struct Ranged {
  uint64_t rows = 0;  // at least 1
  uint32_t dim = 1;
  Initialiser init = Zeros{};
  Rule rule = Add{};
  Consistency consistency = Ssp{};
  bool aggregated = false;
  bool mean = false;
  bool accept_non_finite = false;
  uint64_t seed = 0;
  PushFilter push_filter = {};
  LinkFilters link_filters = {};
};

using TableSchema = std::variant<Sparse, Ranged>;

}  // namespace paceline
