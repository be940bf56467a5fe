#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

// The project's locks: those of the standard library, with annotations that let Clang check what they guard
// (ABSL_GUARDED_BY and its like; GCC ignores them). Abseil's own locks are not used: the installed library
// was compiled without ThreadSanitizer, which therefore does not see that such a lock orders two threads. It
// would report races that are none, and with these suppressed it would miss real ones.
namespace paceline {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds `mutex` until the end of its scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Waits for a condition that other threads change under a lock. The thread that changes it signals.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Signal() { changed_.notify_one(); }
  void SignalAll() { changed_.notify_all(); }

  // Releases `mutex`, which the caller holds, until `done()` is true. Calls `done` with the mutex held.
  template <class Done>
  void Await(Mutex* mutex, Done done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock, done);
    lock.release();
  }

  // The same, for at most `timeout`; returns done(). A timeout of a year or more means no limit.
  template <class Done>
  bool AwaitFor(Mutex* mutex, absl::Duration timeout, Done done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    constexpr absl::Duration kForEver = absl::Hours(24 * 365);
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    const bool ended = changed_.wait_for(
        lock, absl::ToChronoNanoseconds(std::clamp(timeout, absl::ZeroDuration(), kForEver)), done);
    lock.release();
    return ended;
  }

 private:
  std::condition_variable changed_;
};

// An event that happens once, and the threads that wait for it. A waiter sees all that was written before
// Notify.
class Notification {
 public:
  // Call at most once. It touches the notification last of all: a waiter may destroy the object as soon as it
  // wakes.
  void Notify() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    happened_ = true;
    changed_.SignalAll();
  }
  bool HasBeenNotified() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return happened_;
  }
  void WaitForNotification() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    changed_.Await(&mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return happened_; });
  }
  // True: the event happened.
  bool WaitForNotificationWithTimeout(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return changed_.AwaitFor(&mutex_, timeout, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return happened_; });
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline
