#pragma once

#include <cstdint>
#include <optional>
#include <variant>

// What a table is. A table is created by the first OpenOrCreate; a later one with another schema is refused,
// naming the field that differs. Consistency is not part of the stored schema: it says how *this* client
// reads.
namespace paceline {

// -- Update rules: what a pushed row g does to the stored row w, element by element. --
//
// Pushes to one key within one call are summed first (for Assign the last one wins; of an aggregated table
// all are summed).

struct Assign {};  // w ← g
struct Add {};     // w ← w + g
struct Sgd {       // w ← w − lr · g
  float lr = 0.01f;
};
struct Adagrad {  // a ← a + g²;  w ← w − lr · g / (√a + epsilon)
  float lr = 0.1f;
  float epsilon = 1e-8f;
  float initial_accumulator = 0;
};
struct FtrlProximal {  // McMahan et al., KDD 2013: sparse solutions of L1-regularised problems
  float alpha = 0.1f;
  float beta = 1;
  float l1 = 0;
  float l2 = 0;
};
using Rule = std::variant<Assign, Add, Sgd, Adagrad, FtrlProximal>;

// -- Initialisers: what a row holds before its first push. A function of the table's seed and the key. --

struct Zeros {};
struct Constant {
  float value = 0;
};
struct Uniform {
  float low = 0;
  float high = 1;
};
struct Normal {
  float mean = 0;
  float stddev = 1;
};
using Initialiser = std::variant<Zeros, Constant, Uniform, Normal>;

// -- Consistency: what a worker at clock c gets to read, and when it waits. --

// Stale synchronous parallel (Ho et al., NIPS 2013): at least all updates of clocks < c − staleness, of every
// worker, and all updates of its own. Waits only for a worker that is further behind than that.
// A client without a clock waits for no worker, but still reads all updates of its own.
// Of an aggregated table no read holds anything of a clock that is not complete, one's own updates included.
struct Ssp {
  uint64_t staleness = 0;

  // False: a row from the client's cache may lack what this client itself pushed after it was read, so that
  // its own updates too are up to `staleness` clocks late. Under rules other than Add and Sgd a push makes a
  // cached row unfit otherwise, and a worker that pushes all that it pulls would gain nothing from its cache.
  bool read_my_writes = true;

  // How many clocks the others may be behind when this worker has waited for them; unset: `staleness`, it
  // waits no longer than the bound asks. A worker that stays at its bound fetches rows that are too old at
  // its next clock: it gains nothing from its cache, and waits at every clock. With a smaller value, of half
  // the staleness for example, it waits once for several clocks, whenever what it fetched last is about to
  // become too old. Of no effect above `staleness`.
  std::optional<uint64_t> catch_up = std::nullopt;

  // True: where rows in the client's cache are too old for a read, the shard is asked which of them have
  // changed, instead of being asked for each of them again. For tables of which a worker reads many rows that
  // seldom change, such as sparse models with L1. It costs the shard a comparison of each row that is pushed.
  // Of sparse tables that are applied on arrival; of no effect with others.
  bool refresh = false;
};

// Asynchronous: newer is welcome, nothing is promised, nobody waits.
struct Asp {};

// Bulk synchronous (Valiant, CACM 1990): *exactly* every worker's updates of clocks < c, of all workers that
// were not evicted. Waits until all have ticked c times. Needs an aggregated table: OpenOrCreate makes one,
// Open refuses any other. A read stays exact if Tick is called while it is under way: the tick is told once
// the read is answered. After Finish, with PullOptions::min_clock, and for a client without a clock a read
// holds *at least* the updates of smaller clocks than it asks for.
struct Bsp {};

using Consistency = std::variant<Ssp, Asp, Bsp>;

// -- Tables --
//
// **Aggregated** tables: the updates of a clock, of all workers, are kept until every worker has ticked past
// it. Then they become one update: rows of the same key are added up — by worker, in the order of ranks, each
// worker's in the order of its pushes, in f32, so that the result does not depend on who was faster — and
// with `mean` divided by the number of the workers that took part in the clock, whether they pushed that key
// or not. The update rule is applied once to what that gives: Adagrad sees the sum's square, not the squares'
// sum, and Assign with `mean` averages models. Only workers push to them; a pushed row can be read from the
// next clock on.

// Any 64-bit key. A row is born by the first push of its key; pulling an unborn row stores nothing.
struct Sparse {
  uint32_t dim = 1;  // f32 values in a row
  Initialiser init = Zeros{};
  Rule rule = Add{};
  Consistency consistency = Ssp{};
  bool aggregated = false;  // implied by Bsp
  bool mean = false;        // by mean instead of sum; aggregated tables only
  // Take updates with NaN and infinities in them. They are refused otherwise; that finite ones add up to more
  // than an f32 holds is not looked at (docs/rules.md).
  bool accept_non_finite = false;
  uint64_t seed = 0;  // of the initialiser
};

// Keys 0 .. rows−1, stored in contiguous blocks: also pushed and pulled by range.
struct Ranged {
  uint64_t rows = 0;
  uint32_t dim = 1;
  Initialiser init = Zeros{};
  Rule rule = Add{};
  Consistency consistency = Ssp{};
  bool aggregated = false;
  bool mean = false;
  bool accept_non_finite = false;
  uint64_t seed = 0;
};

using TableSchema = std::variant<Sparse, Ranged>;

}  // namespace paceline
