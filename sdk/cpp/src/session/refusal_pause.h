#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "libs/base/retry.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::sdk {

// The pause after a refusal that says nothing of it, and the longest after one that names a shorter pause.
inline constexpr absl::Duration kPauseIfUnsaid = absl::Milliseconds(50);

// How long to wait before asking again what was refused `times` times in a row before. What a shard waits for
// is mostly on its way, so it names a short pause; if that was wrong the pauses grow, so that a shard that
// goes on refusing is not asked all the time.
inline absl::Duration PauseAfter(const v1::Refusal& refusal, int times) {
  if (refusal.retry_after_ms() == 0) return kPauseIfUnsaid;
  const absl::Duration said = absl::Milliseconds(refusal.retry_after_ms());
  const BackoffPolicy policy{.initial = said, .max = std::max(said, kPauseIfUnsaid), .jitter = 0};
  return policy.Delay(times, /*random=*/0);
}

}  // namespace paceline::sdk
