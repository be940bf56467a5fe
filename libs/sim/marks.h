#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace paceline::sim {

// Counts rare events by name. A batch of runs that never reached one of them does not test it, and therefore
// fails.
class Marks {
 public:
  void Hit(absl::string_view name, uint64_t times = 1) {
    const auto it = counts_.find(name);
    if (it == counts_.end())
      counts_.emplace(name, times);
    else
      it->second += times;
  }
  uint64_t Of(absl::string_view name) const {
    const auto it = counts_.find(name);
    return it == counts_.end() ? 0 : it->second;
  }
  void Add(const Marks& other) {
    for (const auto& [name, times] : other.counts_) Hit(name, times);
  }
  const std::map<std::string, uint64_t, std::less<>>& counts() const { return counts_; }

 private:
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace paceline::sim
