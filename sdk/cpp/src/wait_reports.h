#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace paceline::sdk {

// An operation that is under way.
struct Waiting {
  std::string what;
  absl::Time since;
  std::string whom;  // it waits for, and what is known of that
};

// When people are told of waits, and in which words: after 3 s, after 10, after 30, and every 30 from then
// on. Knows no time but what it is told.
class WaitReports {
 public:
  // What is to be said now of those that wait.
  std::vector<std::string> Due(absl::Time now, const std::vector<Waiting>& waits);

 private:
  std::map<std::pair<std::string, absl::Time>, absl::Time> next_;  // by what and since
};

}  // namespace paceline::sdk
