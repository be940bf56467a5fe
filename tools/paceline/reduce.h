#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "paceline/reduce.h"
#include "tools/paceline/rows.h"

namespace paceline::tool {

// `paceline reduce`: one answer from all rows of a table.
struct ReduceCommand {
  RowsOptions rows;
  std::string op;
  std::string range;
  uint32_t k = 10;
  std::optional<uint32_t> column;
};

// The keys A .. B − 1 of "A:B"; without A from 0 on, without B to the end. INVALID_ARGUMENT: it is no range.
absl::StatusOr<ReduceOptions> ParseKeyRange(const std::string& text);

std::string ReducedText(const ReduceCommand& command, const Reduced& reduced);
std::string ReducedJson(const ReduceCommand& command, const Reduced& reduced);
std::string TopText(const std::vector<TopValue>& top);
std::string TopJson(const ReduceCommand& command, const std::vector<TopValue>& top);

CLI::App* AddReduce(CLI::App& app, ReduceCommand& command);
int ReduceTable(const ReduceCommand& command);

}  // namespace paceline::tool
