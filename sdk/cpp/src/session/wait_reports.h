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
  std::string whom;  // the worker or shard that it waits for, and its last known state
};

// Decides when to report waits, and in which words: after 3 s, after 10, after 30, and then every 30. Has no
// clock of its own.
class WaitReports {
 public:
  // The reports that are due now for these waiting operations.
  std::vector<std::string> Due(absl::Time now, const std::vector<Waiting>& waits);

 private:
  std::map<std::pair<std::string, absl::Time>, absl::Time> next_;  // by what and since
};

}  // namespace paceline::sdk
