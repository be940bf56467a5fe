#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

// The locks of this project: those of the standard library, with the annotations by which Clang checks what
// they guard (ABSL_GUARDED_BY and its like; GCC reads them as comments). Not Abseil's own, which are a
// library that was compiled without ThreadSanitizer: it would not see that one lock orders two threads, and
// so report races that are none and, told to overlook them, miss those that are.
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

// Waits for what other threads change under a lock. Whoever changes it signals.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Signal() { changed_.notify_one(); }
  void SignalAll() { changed_.notify_all(); }

  // Lets go of `mutex`, which the caller holds, until `done()` is true; `done` is called with it held.
  template <class Done>
  void Await(Mutex* mutex, Done done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock, done);
    lock.release();
  }

  // The same, for at most `timeout`; returns done(). A year counts as for ever.
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

// Something that happens once, and those who wait for it. What was written before Notify is seen after a
// wait.
class Notification {
 public:
  // At most once. The last thing that touches the notification: a waiter may destroy it at once.
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
  // True: it happened.
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
