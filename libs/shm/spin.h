#pragma once

#include <cstdint>

namespace paceline::shm {

// How long to look for the next event before sleeping. Where looking has paid it is the whole maximum again;
// where it does not, it soon shrinks to nothing, and only every 16th time the whole of it is tried. Not
// thread-safe.
class Spin {
 public:
  explicit Spin(int64_t max_ns) : max_(max_ns), limit_(max_ns) {}

  // Nanoseconds to look for this time.
  int64_t Limit() { return ++tries_ % kTryAgain == 0 ? max_ : limit_; }
  // Something came while looking.
  void Paid() { limit_ = max_; }
  void InVain() {
    limit_ /= 2;
    if (limit_ < kLeast) limit_ = 0;
  }

 private:
  static constexpr uint32_t kTryAgain = 16;
  static constexpr int64_t kLeast = 4'000;

  const int64_t max_;
  int64_t limit_;
  uint32_t tries_ = 0;
};

}  // namespace paceline::shm
