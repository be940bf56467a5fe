#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::bench {

// A network of this process, and of those that it starts, in which what travels to and from one port shares a
// link of a limited rate, each direction by itself: a network namespace whose loopback device has a token
// bucket (tc tbf) for either. It ends with the processes in it, and touches nothing outside. Linux only.

// Moves the calling thread, and the threads and processes that it starts from now on, into a network of their
// own. Call it before the process has another thread. FAILED_PRECONDITION: it needs root, or the programs ip
// and tc; the message says which.
absl::Status EnterNetwork();

// Limits what travels to `port` of the loopback device, and what comes from it. REQUIRES: EnterNetwork has
// succeeded. Call it once.
absl::Status LimitPort(int port, double bytes_per_second);

// The port of the one shard of the cluster whose coordinator is at `coordinator`, host:port.
absl::StatusOr<int> PortOfShard(const std::string& coordinator);

}  // namespace paceline::bench
