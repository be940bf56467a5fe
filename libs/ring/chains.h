#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libs/ring/roster.h"

namespace paceline::ring {

// Something that weighs on one of several shards. Part of the planner; of no use elsewhere.
struct Token {
  uint32_t segment = 0;
  int64_t weight = 1;
  int holder = 0;
  std::vector<int> options;  // the holder among them
};

// Passes tokens on from shard to shard as long as a chain of passes makes the sum of the squares of `loads`
// smaller; the shortest chains first. `loads` have the tokens' weights in them and are kept up to date. Each
// pass is asked for (`may`), and then said (`pass`). If all weigh the same and nothing is forbidden, the
// loads are then as even as they can be.
void PassOn(std::vector<Token>& tokens, std::vector<int64_t>& loads, const Roster& roster,
            absl::FunctionRef<bool(const Token& token, int to)> may,
            absl::FunctionRef<void(const Token& token, int to)> pass);

}  // namespace paceline::ring
