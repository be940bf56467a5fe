#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "libs/table/schema.h"

namespace paceline::log {

// The rates that a table's updates use, and the bound that its readers follow, by clock: those from the
// table's creation, and those of later changes.
//
// Changes are numbered 1, 2, 3 … A change holds from its clock until a later change takes over, and replaces
// earlier changes that would begin at its clock or after it: the last decision counts. Plain value.
class RuleSchedule {
 public:
  struct Period {
    uint64_t number = 0;  // of the change; 0: as created
    Clock from = 0;
    table::Rule rule;
    uint32_t bound = 0;  // as in log::ChangeRule
  };

  explicit RuleSchedule(table::Rule rule) : periods_{{.number = 0, .from = 0, .rule = rule}} {}

  // A copy of another member's schedule. REQUIRES: at least one period; their numbers ascend.
  explicit RuleSchedule(std::vector<Period> periods) : periods_(std::move(periods)) {}

  // Change `number` begins at `from`; a change of that number that exists already is moved. REQUIRES: number
  // >= last(), at least 1.
  void Change(uint64_t number, const table::Rule& rule, Clock from, uint32_t bound = 0);

  // Callers will ask for no clock below `clock`, and move no change that has begun by then: drops the periods
  // that no longer count.
  void Forget(Clock clock);

  // O(periods).
  const Period& At(Clock clock) const { return periods_[IndexAt(clock)]; }

  // The number of the newest change; 0: none.
  uint64_t last() const { return periods_.back().number; }
  // The clock at which the newest change begins; nullopt: there is none.
  std::optional<Clock> last_from() const;
  // By number; at least one. The first period applies wherever no later one does.
  const std::vector<Period>& periods() const { return periods_; }

 private:
  size_t IndexAt(Clock clock) const;

  std::vector<Period> periods_;
};

}  // namespace paceline::log
