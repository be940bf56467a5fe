#pragma once

#include <grpc/support/time.h>

#include <algorithm>

#include "absl/time/time.h"

// Deadlines for gRPC that do not depend on the wall clock. gRPC also accepts system_clock times, but with
// these a call ends hours early or late if the machine's clock is set meanwhile.
namespace paceline::rpc {

// The moment `timeout` from now, at most a day: for the deadline of a call, an alarm, or a wait on a queue.
inline gpr_timespec After(absl::Duration timeout) {
  const absl::Duration span = std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(span), GPR_TIMESPAN));
}

// For a look at a queue that does not wait. After(absl::ZeroDuration()) may wait: gRPC rounds a deadline up
// to the next millisecond.
inline gpr_timespec AtOnce() {
  return gpr_inf_past(GPR_CLOCK_MONOTONIC);
}

// The time left until `deadline`, e.g. a call's raw_deadline(). InfiniteDuration: there is no deadline.
inline absl::Duration Left(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return absl::InfiniteDuration();
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace paceline::rpc
