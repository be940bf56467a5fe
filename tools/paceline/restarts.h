#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "libs/base/retry.h"

namespace paceline::tool {

// Decides when processes that have ended by themselves are started again: after half a second, then after
// pauses that grow to 30 s, so that a process that cannot live consumes neither the machine nor the log. A
// process that ran for a minute begins anew with the shortest pause. Has no clock of its own.
class Restarts {
 public:
  explicit Restarts(absl::Time now) : begun_(now) {}

  // `name` has ended. Returns the pause until its restart.
  absl::Duration Ended(const std::string& name, absl::Time now);
  // When the next restart is due; InfiniteFuture: there is none.
  absl::Time Next() const;
  // A process that is due, which counts as started now.
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
