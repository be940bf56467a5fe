#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline::bench {

// A link of limited rate between this process and those that are started beyond it: two network namespaces, a
// pair of devices between them, and at either end a token bucket (tc tbf), so that each direction has the
// rate by itself. All of it ends with the processes in it, and nothing outside is touched. Linux only.
struct LimitedLink {
  std::string near, far;             // addresses: of this process, and of those beyond
  std::vector<std::string> command;  // a command line behind this one runs beyond the link
};

// Moves the calling thread, and the threads and processes that it starts from now on, to the near end. Call
// it once, before the process has another thread. FAILED_PRECONDITION: it needs root, and the programs ip, tc
// and nsenter, and a kernel with these devices and queues; the message says what is missing.
absl::StatusOr<LimitedLink> EnterLimitedLink(double bytes_per_second);

}  // namespace paceline::bench
