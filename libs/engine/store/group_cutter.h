#pragma once

#include <cstdint>

#include "libs/engine/engine.h"

namespace paceline::engine {

// Deals the records of a batch to groups, in order.
class GroupCutter {
 public:
  GroupCutter(uint64_t first, uint64_t bytes_max) : group_(first), bytes_max_(bytes_max) {}

  uint64_t GroupOf(const LogEntry& entry) {
    if (bytes_ > 0 && bytes_ + entry.record.size() > bytes_max_) {
      ++group_;
      bytes_ = 0;
    }
    bytes_ += entry.record.size();
    return group_;
  }
  // The first group of the next batch.
  uint64_t next() const { return group_ + 1; }

 private:
  uint64_t group_;
  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;  // of the present group
};

}  // namespace paceline::engine
