#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "paceline/rules.h"

// A table's definition: the shape of its rows, their initial values and the effect of an update. Fixed for
// the table's life, except for the rates of its rule (CheckRuleChange). Plain values, free to copy and to
// read from any thread.
namespace paceline::table {

enum class Kind : uint8_t {
  kSparse = 1,  // any 64-bit key; a row is born by the first update of its key
  kRanged = 2,  // keys 0 .. rows-1, kept in contiguous blocks; a block is born whole
};

// table::Sgd is paceline::Sgd, and so on.
using namespace values;  // NOLINT(google-build-using-namespace)

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

// The most bytes of rows in one page. A row of a sparse table counts 8 bytes for its key and 4 for every
// value and slot; in a ranged table only values count, since the size of blocks does not depend on the rule.
inline constexpr size_t kPageBytes = 64 * 1024;

// The name of a rule, as on the wire: "sgd".
absl::string_view NameOfRule(const Rule& rule);

// The feature level that shards must speak to have tables with the rule.
uint32_t LevelOf(const Rule& rule);

// Slots the rule keeps beside each value, and their names in the order in which a row has them.
uint32_t SlotsPerValue(const Rule& rule);
std::vector<std::string> SlotNamesOf(const Rule& rule);

// The values of the rule's parameters, in the order of the wire.
std::vector<float> ParametersOf(const Rule& rule);

// Slots in a row: SlotsPerValue(rule) * dim.
size_t SlotsPerRow(const Rule& rule, uint32_t dim);

// OK if the rule of a living table may become `to`: the same kind of rule, the same slots, the same initial
// slot values. Otherwise kInvalidArgument naming the field. Does not check `to` itself: Validate does.
absl::Status CheckRuleChange(const Rule& from, const Rule& to);

// Whether an update changes a value by a function of the gradient alone, so that it can be applied to a copy.
bool IsAdditive(const Rule& rule);

// Equal for equal rules, bit for bit.
uint64_t HashOf(const Rule& rule);

// Floats in a row: values and slots.
size_t FloatsPerRow(const Schema& schema);

// OK if a table can be made of `schema`. Otherwise kInvalidArgument names the first wrong field, the
// expectation and the remedy. Everything else in this library requires a valid schema.
//
// A row with its slots and key must fit a page, so dim is at most 16382 for a rule without slots, 8191 with
// one, 5460 with two, 3276 with four and 1820 with eight, the most that an expression may have.
absl::Status Validate(const Schema& schema);

// The first field in which the two differ, with both values, as "dim: 16 against 8"; nullopt if they are
// equal. Used to refuse a second, different schema for an existing table.
std::optional<std::string> FirstDifference(const Schema& a, const Schema& b);

}  // namespace paceline::table
