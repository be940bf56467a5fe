#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace paceline::log {

// A set of numbers, kept as ranges: a set without gaps takes one entry, whatever its size. Plain value.
class IdRanges {
 public:
  IdRanges() = default;
  // First → last of each. REQUIRES: as ranges() has it.
  explicit IdRanges(std::map<uint32_t, uint32_t> ranges) : ranges_(std::move(ranges)) {}

  // O(log ranges). Does nothing if the number is in the set already.
  void Add(uint32_t id);
  bool Contains(uint32_t id) const;
  // First → last of each range, ascending; at least one missing number lies between two ranges.
  const std::map<uint32_t, uint32_t>& ranges() const { return ranges_; }

 private:
  std::map<uint32_t, uint32_t> ranges_;
};

}  // namespace paceline::log
