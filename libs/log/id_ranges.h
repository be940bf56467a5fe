#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace paceline::log {

// A set of numbers, kept as ranges: a set without gaps takes one entry, however many are in it. Plain value.
class IdRanges {
 public:
  IdRanges() = default;
  // First → last of each. REQUIRES: as ranges() has it.
  explicit IdRanges(std::map<uint32_t, uint32_t> ranges) : ranges_(std::move(ranges)) {}

  // O(log ranges). Nothing happens if it is in already.
  void Add(uint32_t id);
  bool Contains(uint32_t id) const;
  // First → last of each range, ascending, with at least one number between two.
  const std::map<uint32_t, uint32_t>& ranges() const { return ranges_; }

 private:
  std::map<uint32_t, uint32_t> ranges_;
};

}  // namespace paceline::log
