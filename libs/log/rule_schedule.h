#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "libs/table/schema.h"

namespace paceline::log {

// The rates that a table's updates use, by clock: those from the table's creation, and those of later
// changes.
//
// Changes are numbered 1, 2, 3 … A change holds from its clock until a later change takes over, and replaces
// earlier changes that would begin at its clock or after it: the last decision counts. Plain value.
class RuleSchedule {
 public:
  struct Stage {
    uint64_t number = 0;  // of the change; 0: as created
    Clock from = 0;
    table::Rule rule;
  };

  explicit RuleSchedule(table::Rule rule) : stages_{{.number = 0, .from = 0, .rule = rule}} {}

  // A copy of another member's schedule. REQUIRES: at least one stage; their numbers ascend.
  explicit RuleSchedule(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  // Change `number` begins at `from`; a change of that number that exists already is moved. REQUIRES: number
  // >= last(), at least 1.
  void Change(uint64_t number, const table::Rule& rule, Clock from);

  // Callers will ask for no clock below `clock`, and move no change that has begun by then: drops the stages
  // that no longer count.
  void Forget(Clock clock);

  // O(stages).
  const Stage& At(Clock clock) const { return stages_[IndexAt(clock)]; }

  // The number of the newest change; 0: none.
  uint64_t last() const { return stages_.back().number; }
  // The clock at which the newest change begins; nullopt: there is none.
  std::optional<Clock> last_from() const;
  // By number; at least one. The first stage applies wherever no later one does.
  const std::vector<Stage>& stages() const { return stages_; }

 private:
  size_t IndexAt(Clock clock) const;

  std::vector<Stage> stages_;
};

}  // namespace paceline::log
