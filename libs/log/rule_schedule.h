#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "libs/table/schema.h"

namespace paceline::log {

// Which rates a table's updates follow, by their clock: those it was created with, and those it was changed
// to.
//
// A change is numbered 1, 2, 3 … and holds from its clock on, until a later change takes over. A later change
// takes the place of those that would begin at its clock or after it: what is decided last counts. Plain
// value.
class RuleSchedule {
 public:
  struct Stage {
    uint64_t number = 0;  // of the change; 0: as created
    Clock from = 0;
    table::Rule rule;
  };

  explicit RuleSchedule(table::Rule rule) : stages_{{.number = 0, .from = 0, .rule = rule}} {}

  // As it was at another member of the segment. REQUIRES: at least one stage, their numbers ascend.
  explicit RuleSchedule(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  // Change `number` begins at `from`; if it was there before it moves. REQUIRES: number >= last(), at
  // least 1.
  void Change(uint64_t number, const table::Rule& rule, Clock from);

  // No clock below `clock` is asked for any more, and no change is moved that has begun by then: what no
  // longer counts is forgotten.
  void Forget(Clock clock);

  // O(stages).
  const Stage& At(Clock clock) const { return stages_[IndexAt(clock)]; }

  // The number of the newest change; 0: none.
  uint64_t last() const { return stages_.back().number; }
  // Where the newest change begins; nullopt: there was none.
  std::optional<Clock> last_from() const;
  // By number; at least one. The first counts where no other does.
  const std::vector<Stage>& stages() const { return stages_; }

 private:
  size_t IndexAt(Clock clock) const;

  std::vector<Stage> stages_;
};

}  // namespace paceline::log
