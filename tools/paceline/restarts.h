#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "libs/base/retry.h"

namespace paceline::tool {

// When processes that have ended by themselves are started again: after half a second, then after pauses that
// grow to 30 s, so that one that cannot live takes neither the machine nor the log. One that ran for a minute
// begins anew with the shortest pause. Knows no time but what it is told.
class Restarts {
 public:
  explicit Restarts(absl::Time now) : begun_(now) {}

  // `name` has ended. How long the pause is.
  absl::Duration Ended(const std::string& name, absl::Time now);
  // When the next one is due; InfiniteFuture: none is.
  absl::Time Next() const;
  // One that is due, which counts as started now.
  std::optional<std::string> Take(absl::Time now);

 private:
  struct Process {
    absl::Time started;
    absl::Time due = absl::InfiniteFuture();
    Backoff pauses;
  };

  const absl::Time begun_;
  std::map<std::string, Process> processes_;  // that have ended before
};

}  // namespace paceline::tool
