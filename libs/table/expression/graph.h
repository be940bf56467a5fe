#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "libs/table/expression/operation.h"

namespace paceline::expression {

// An expression's bounds.
inline constexpr size_t kOperationsMax = 256;
inline constexpr size_t kCodeBytesMax = 4096;
inline constexpr size_t kNameBytesMax = 32;
inline constexpr size_t kSlotsMax = 8;  // the one that counts steps included
inline constexpr size_t kParametersMax = 16;
inline constexpr size_t kDepthMax = 64;  // of parentheses, functions and signs in each other

// Numbers the values of a Graph, from 0.
using ValueId = uint16_t;

// One number of an update: given from outside, or the result of an operation.
struct Value {
  enum class Kind : uint8_t { kGradient, kStored, kParameter, kConstant, kResult };

  Kind kind = Kind::kResult;
  uint8_t index = 0;  // kStored: 0 is w, 1 the first slot …; kParameter: which
  Operation operation = Operation::kAdd;
  std::array<ValueId, 4> of = {};  // kResult: the operands; those that it does not have repeat the first
  uint32_t bits = 0;               // kConstant: of its f32

  // True if it is the same for all rows: it depends on parameters and constants alone.
  bool uniform = false;

  friend auto operator<=>(const Value&, const Value&) = default;
};

// What an expression computes: each value once, and each after its operands.
class Graph {
 public:
  // The value, or the equal one that is here already.
  ValueId Add(const Value& value) {
    const auto [it, is_new] = known_.try_emplace(value, static_cast<ValueId>(values.size()));
    if (is_new) values.push_back(value);
    return it->second;
  }

  std::vector<Value> values;
  // By the end of the update: of w, of the first slot, …
  std::vector<ValueId> stored;
  // The last slot counts the row's updates.
  bool counts_steps = false;

 private:
  std::map<Value, ValueId> known_;
};

}  // namespace paceline::expression
