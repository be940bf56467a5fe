#include "bench/consistency/pauses.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "examples/lib/random.h"
#include "examples/lib/steady_now.h"

namespace paceline::bench {
namespace {

// Beats from the first call on.
class Beat {
 public:
  explicit Beat(absl::Duration each) : each_(each) {}

  // To the end of the clock. A worker that has missed it does not sleep, and so comes back into step.
  absl::Duration UntilNext(uint64_t clock) {
    const int64_t now = absl::ToInt64Nanoseconds(examples::SteadyNow() - absl::UnixEpoch());
    int64_t began = 0;
    // Whoever comes first says when clock 0 began.
    const int64_t own = now - static_cast<int64_t>(clock) * absl::ToInt64Nanoseconds(each_);
    if (began_.compare_exchange_strong(began, own)) began = own;
    const int64_t end = began + static_cast<int64_t>(clock + 1) * absl::ToInt64Nanoseconds(each_);
    return absl::Nanoseconds(std::max<int64_t>(0, end - now));
  }

 private:
  const absl::Duration each_;
  std::atomic<int64_t> began_ = 0;  // 0: not yet
};

}  // namespace

bool IsSlow(const Pauses& pauses, uint32_t rank, uint64_t clock) {
  if (pauses.kind != Pauses::Kind::kTurns) return false;
  const uint64_t block = clock / Pauses::kBlock;
  const uint64_t drawn = examples::Mix64(examples::Mix64(pauses.seed) + examples::Mix64(rank + 1) + block);
  return clock % Pauses::kBlock == drawn % Pauses::kBlock;
}

std::function<absl::Duration(uint32_t, uint64_t)> PauseOf(const Pauses& pauses) {
  if (pauses.kind == Pauses::Kind::kBeat) {
    return [beat = std::make_shared<Beat>(pauses.each)](uint32_t, uint64_t clock) {
      return beat->UntilNext(clock);
    };
  }
  return [pauses](uint32_t rank, uint64_t clock) {
    return pauses.each + (IsSlow(pauses, rank, clock) ? pauses.slow : absl::ZeroDuration());
  };
}

}  // namespace paceline::bench
