#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace paceline::bench {

// When workers sleep, as if they computed: so long that the cores of the machine do not decide who is slow.
struct Pauses {
  enum class Kind {
    kTurns,  // in each block of kBlock clocks each worker is slow in one, drawn by the seed
    kEven,   // nobody is slow
    kBeat,   // all begin each clock together, at the beats of one clock
  };
  static constexpr uint64_t kBlock = 8;

  Kind kind = Kind::kTurns;
  absl::Duration each = absl::Milliseconds(14);   // in each clock, or from beat to beat
  absl::Duration slow = absl::Milliseconds(140);  // in a slow one, beside that
  uint64_t seed = 1;
};

// Whether the worker is slow at the clock.
bool IsSlow(const Pauses& pauses, uint32_t rank, uint64_t clock);

// How long a worker sleeps at a clock; for any number of threads. kBeat begins with the first call.
std::function<absl::Duration(uint32_t rank, uint64_t clock)> PauseOf(const Pauses& pauses);

}  // namespace paceline::bench
