#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"

namespace paceline::log {

// Bounds the bytes a second that a shard sends of images, over all its segments and learners. Thread-safe.
class MovePace {
 public:
  // nullptr, which stands for no bound, if `bytes_per_s` is 0.
  static std::shared_ptr<MovePace> Of(uint64_t bytes_per_s) {
    return bytes_per_s == 0 ? nullptr : std::make_shared<MovePace>(bytes_per_s);
  }
  explicit MovePace(uint64_t bytes_per_s) : bytes_per_s_(static_cast<double>(bytes_per_s)) {}

  // True if more may be sent now. What is sent then may be ahead of the pace by kBurst and one frame.
  bool Admits(absl::Time now) const { return absl::ToUnixNanos(now + kBurst) > paid_until_; }
  // So much was sent.
  void Spend(uint64_t bytes, absl::Time now) {
    const auto cost = static_cast<int64_t>(static_cast<double>(bytes) / bytes_per_s_ * 1e9);
    int64_t until = paid_until_;
    while (!paid_until_.compare_exchange_weak(until, std::max(until, absl::ToUnixNanos(now)) + cost)) {
    }
  }

 private:
  // Longer than the time between two visits of a segment.
  static constexpr absl::Duration kBurst = absl::Milliseconds(50);

  const double bytes_per_s_;
  std::atomic<int64_t> paid_until_{0};  // the pace allows for what was sent by then; in ns since 1970
};

}  // namespace paceline::log
