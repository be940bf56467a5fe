#include "libs/log/id_ranges.h"

#include <iterator>

namespace paceline::log {

void IdRanges::Add(uint32_t id) {
  if (Contains(id)) return;
  uint32_t first = id;
  uint32_t last = id;
  auto after = ranges_.upper_bound(id);
  if (after != ranges_.begin() && std::prev(after)->second + 1 == id) first = std::prev(after)->first;
  if (after != ranges_.end() && after->first == id + 1) {
    last = after->second;
    ranges_.erase(after);
  }
  ranges_[first] = last;
}

bool IdRanges::Contains(uint32_t id) const {
  const auto after = ranges_.upper_bound(id);
  return after != ranges_.begin() && std::prev(after)->second >= id;
}

}  // namespace paceline::log
