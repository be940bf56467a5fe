#pragma once

#include <cstdint>
#include <variant>

// What a table is. A table is created by the first OpenOrCreate; a later one with another schema is refused,
// naming the field that differs. Consistency is not part of the stored schema: it says how *this* client
// reads.
namespace paceline {

// -- Update rules: what a pushed row g does to the stored row w, element by element. --
//
// Pushes to one key within one call are summed first (for Assign the last one wins).

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
struct Ssp {
  uint64_t staleness = 0;
};

// Asynchronous: newer is welcome, nothing is promised, nobody waits.
struct Asp {};

// Bulk synchronous: exactly every worker's updates of clocks < c. Needs tables that are aggregated per clock,
// which are not served yet: opening a table with it returns UNIMPLEMENTED. Ssp{.staleness = 0} gives *at
// least* these updates.
struct Bsp {};

using Consistency = std::variant<Ssp, Asp, Bsp>;

// -- Tables --

// Any 64-bit key. A row is born by the first push of its key; pulling an unborn row stores nothing.
struct Sparse {
  uint32_t dim = 1;  // f32 values in a row
  Initialiser init = Zeros{};
  Rule rule = Add{};
  Consistency consistency = Ssp{};
  bool accept_non_finite = false;  // take updates with NaN and infinities in them
  uint64_t seed = 0;               // of the initialiser
};

// Keys 0 .. rows−1, stored in contiguous blocks: also pushed and pulled by range.
struct Ranged {
  uint64_t rows = 0;
  uint32_t dim = 1;
  Initialiser init = Zeros{};
  Rule rule = Add{};
  Consistency consistency = Ssp{};
  bool accept_non_finite = false;
  uint64_t seed = 0;
};

using TableSchema = std::variant<Sparse, Ranged>;

}  // namespace paceline
