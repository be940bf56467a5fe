#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"

// What a table is: its rows' shape, their initial values and what an update does to them. Fixed for the
// table's life. Plain values, free to copy and to read from any thread.
namespace paceline::table {

enum class Kind : uint8_t {
  kSparse = 1,  // any 64-bit key; a row is born by the first update of its key
  kRanged = 2,  // keys 0 .. rows-1, kept in contiguous blocks; a block is born whole
};

// Initialisers: the values of a row before its first update. The formulas are in initialiser.h.
struct Zeros {
  friend bool operator==(const Zeros&, const Zeros&) = default;
};
struct Constant {
  float value = 0;
  friend bool operator==(const Constant&, const Constant&) = default;
};
struct Uniform {  // between low and high, both included
  float low = 0;
  float high = 1;
  friend bool operator==(const Uniform&, const Uniform&) = default;
};
struct Normal {
  float mean = 0;
  float stddev = 1;
  friend bool operator==(const Normal&, const Normal&) = default;
};
using Initialiser = std::variant<Zeros, Constant, Uniform, Normal>;

// Update rules: what one update does to the values and to the rule's own state beside them, the slots. The
// formulas and their sources are in rule.h.
struct Assign {
  friend bool operator==(const Assign&, const Assign&) = default;
};
struct Add {
  friend bool operator==(const Add&, const Add&) = default;
};
struct Sgd {
  float lr = 0.01f;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};
struct Adagrad {
  float lr = 0.1f;
  float epsilon = 1e-8f;
  float initial_accumulator = 0;
  friend bool operator==(const Adagrad&, const Adagrad&) = default;
};
struct FtrlProximal {
  float alpha = 0.1f;
  float beta = 1;
  float l1 = 0;
  float l2 = 0;
  friend bool operator==(const FtrlProximal&, const FtrlProximal&) = default;
};
using Rule = std::variant<Assign, Add, Sgd, Adagrad, FtrlProximal>;

struct Schema {
  Kind kind = Kind::kSparse;
  uint32_t dim = 1;   // values in a row
  uint64_t rows = 0;  // ranged tables only; 0 for sparse ones
  Initialiser init = Zeros{};
  Rule rule = Add{};
  bool aggregated = false;         // updates of a clock are folded into one before the rule sees them
  bool mean = false;               // … by their mean instead of their sum; aggregated tables only
  bool accept_non_finite = false;  // take updates with infinities and NaN in them
  uint64_t seed = 0;               // of the initialiser

  friend bool operator==(const Schema&, const Schema&) = default;
};

// The most bytes of rows in one page. A row of a sparse table counts 8 for its key and 4 for every value and
// slot; of a ranged table only values count, for its blocks are cut without a look at the rule.
inline constexpr size_t kPageBytes = 64 * 1024;

// Slots the rule keeps beside each value: 0, 1 or 2.
uint32_t SlotsPerValue(const Rule& rule);

// Slots in a row: SlotsPerValue(rule) * dim.
size_t SlotsPerRow(const Rule& rule, uint32_t dim);

// OK if a table's rule may become `to` while it lives: of the same kind, with its slots as they are and their
// initial value unchanged. Otherwise kInvalidArgument naming the field. Whether `to` makes sense is
// Validate's to say.
absl::Status CheckRuleChange(const Rule& from, const Rule& to);

// Equal for equal rules, bit for bit.
uint64_t HashOf(const Rule& rule);

// Floats in a row: values and slots.
size_t FloatsPerRow(const Schema& schema);

// OK if a table can be made of `schema`. Otherwise kInvalidArgument naming the first field that is wrong,
// what was expected there and what to do about it. Everything else in this library requires a valid schema.
//
// A row with its slots and key must fit a page, so dim is at most 16382 for a rule without slots, 8191 with
// one and 5460 with two.
absl::Status Validate(const Schema& schema);

// The first field in which the two differ, with both values, as "dim: 16 against 8"; nullopt if they are
// equal. This is what refuses a second, different schema for a table that exists.
std::optional<std::string> FirstDifference(const Schema& a, const Schema& b);

}  // namespace paceline::table
