#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/table/expression/graph.h"
#include "libs/table/expression/parser.h"

namespace paceline::expression {

// Numbers that a program holds at a time, for each value that it updates.
inline constexpr size_t kRegistersMax = 64;
using Register = uint8_t;

// An expression made ready to run: a list of operations on registers, without a jump. Immutable, and shared
// by all who run it.
//
// Registers 0, 1 … hold w and the slots, the one after them g, those after it what is the same for all rows.
// The others are taken and given back as results need them. All of this follows from the text alone, and no
// operation is moved or replaced, so that two programs of one text compute the same bits.
struct Program {
  struct Instruction {
    Operation operation = Operation::kAdd;
    Register to = 0;
    std::array<Register, 4> of = {};
  };

  // What is the same for all rows is computed once, when the parameters are known. Operands are places in the
  // list of such values: parameters, then constants, then results.
  struct Uniform {
    Operation operation = Operation::kAdd;
    std::array<uint16_t, 4> of = {};
  };

  size_t parameters = 0;
  std::vector<float> constants;
  std::vector<Uniform> uniforms;
  std::vector<uint16_t> loaded;  // the places of those that rows need, for the registers after g

  std::vector<Instruction> code;
  // Of w and each slot: the register with its new number; nullopt: it stays.
  std::vector<std::optional<Register>> stored;
  size_t registers = 0;  // used; at most kRegistersMax
};

// kInvalidArgument: as Parse says; or the expression holds more numbers at a time than there are registers.
absl::StatusOr<Program> Compile(const Source& source);

}  // namespace paceline::expression
