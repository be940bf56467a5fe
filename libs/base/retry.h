#pragma once

#include <cmath>
#include <cstdint>

#include "absl/time/time.h"

namespace paceline {

// The pause before the next try: initial, initial * factor, initial * factor^2 …, at most `max`. Each is
// shortened by a random share of up to `jitter`, so that callers that failed together do not return together.
struct BackoffPolicy {
  absl::Duration initial = absl::Milliseconds(10);
  absl::Duration max = absl::Seconds(2);
  double factor = 2.0;  // at least 1
  double jitter = 0.5;  // 0 .. 1; 0: none

  // The wait before try number `attempt` + 2, that is after `attempt` + 1 failures. `random` is 64 random
  // bits. Pure; it does not wait. Between max(…) * (1 - jitter) and max(…).
  absl::Duration Delay(int attempt, uint64_t random) const {
    absl::Duration delay = max;
    const double scale = std::pow(factor, attempt);
    // Compared before multiplying: the product of a late attempt would be infinite.
    if (scale < absl::FDivDuration(max, initial)) {
      delay = initial * scale;
    }
    const double unit = static_cast<double>(random >> 11) * 0x1p-53;  // in [0, 1)
    return delay * (1.0 - jitter * unit);
  }
};

// Counts attempts against a policy. Neither sleeps nor knows the time or a source of randomness: the caller
// passes random bits in and does the waiting. A small value; for one thread.
class Backoff {
 public:
  explicit Backoff(const BackoffPolicy& policy) : policy_(policy) {}

  // Call after each failure: the time to wait before the next try.
  absl::Duration Next(uint64_t random) { return policy_.Delay(failures_++, random); }
  // Call after a success: the next failure waits for `initial` again.
  void Reset() { failures_ = 0; }
  // Since construction or the last Reset.
  int failures() const { return failures_; }

 private:
  BackoffPolicy policy_;
  int failures_ = 0;
};

}  // namespace paceline
