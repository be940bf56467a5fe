#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

namespace paceline {

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

// Held while a thread looks for events without sleeping. At most half as many threads of a process do as the
// machine has cores: the others need them. False: this one must not.
class SpinPermit {
 public:
  SpinPermit();
  ~SpinPermit();
  SpinPermit(const SpinPermit&) = delete;
  explicit operator bool() const { return given_; }

 private:
  const bool given_;
};

inline int64_t SpinNowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// Calls `look` again and again until it has found something, or looking any longer is not worth it. Between
// two calls other threads that want the core get it. Returns whether it was found.
template <class Look>
bool LookAWhile(Spin& spin, Look look) {
  const int64_t limit = spin.Limit();
  if (limit == 0) return false;
  const SpinPermit permit;
  if (!permit) return false;
  const int64_t end = SpinNowNs() + limit;
  do {
    if (look()) {
      spin.Paid();
      return true;
    }
    sched_yield();
  } while (SpinNowNs() < end);
  spin.InVain();
  return false;
}

}  // namespace paceline
