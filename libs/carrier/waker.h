#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "libs/carrier/descriptor.h"

namespace paceline::carrier {

// Wakes one thread from any other. Costs a system call only while that thread sleeps. Shared: who wakes may
// outlive the thread.
class Waker {
 public:
  Waker() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Thread-safe.
  void Wake() {
    poked_.store(true);
    if (!asleep_.load()) return;
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof(one));
  }

  // -- for the thread that sleeps --
  int fd() const { return event_.get(); }
  // False: somebody has called Wake since the last call; do not sleep. True: fd() becomes readable when
  // somebody does.
  bool MaySleep() {
    asleep_.store(true);
    if (!poked_.exchange(false)) return true;
    asleep_.store(false);
    return false;
  }
  // `rung`: fd() was readable.
  void Awake(bool rung) {
    asleep_.store(false);
    if (!rung) return;
    uint64_t count = 0;
    (void)!read(event_.get(), &count, sizeof(count));
  }

 private:
  const Descriptor event_;
  std::atomic<bool> poked_{false};
  std::atomic<bool> asleep_{false};
};

}  // namespace paceline::carrier
