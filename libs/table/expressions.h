#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libs/table/expression/program.h"
#include "paceline/rules.h"

// Expressions as one of the rules.
namespace paceline::table {

// kInvalidArgument, by place: a schema may not have it.
absl::StatusOr<expression::Program> Compile(const Expression& rule);

// Its slots, and the one that counts steps if it has that.
uint32_t SlotsPerValue(const Expression& rule);

// Code and slots, which are fixed for a table's life, on one line: `"w = w - g*n", slot n 0`. Safe to show.
std::string FixedText(const Expression& rule);

}  // namespace paceline::table
