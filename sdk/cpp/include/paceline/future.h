#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace paceline {

template <class T>
class Future;

namespace internal {

// What a Future<T> ends with: absl::Status for void, absl::StatusOr<T> otherwise.
template <class T>
struct ResultOf {
  using type = absl::StatusOr<T>;
};
template <>
struct ResultOf<void> {
  using type = absl::Status;
};

// The other way round, for the results of continuations.
template <class R>
struct ValueOf;
template <>
struct ValueOf<absl::Status> {
  using type = void;
};
template <class T>
struct ValueOf<absl::StatusOr<T>> {
  using type = T;
};

// True on a thread that runs callbacks: there a wait for a client's own future could never end.
bool WaitingIsForbidden();

template <class R>
class FutureState {
 public:
  using Callback = absl::AnyInvocable<void(const R&)>;

  // The first one counts; false if there was one before.
  bool Set(R result) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Callback> callbacks;
    {
      absl::MutexLock lock(&mutex_);
      if (result_.has_value()) return false;
      result_.emplace(std::move(result));
      callbacks.swap(callbacks_);
    }
    for (Callback& callback : callbacks) callback(*result_);
    return true;
  }

  void OnReady(Callback callback) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!result_.has_value()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(*result_);
  }

  bool ready() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return result_.has_value();
  }

  bool Wait(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return result_.has_value(); };
    if (done()) return true;
    if (WaitingIsForbidden()) return false;
    return mutex_.AwaitWithTimeout(absl::Condition(&done), timeout);
  }

  // REQUIRES: ready(). What was set stays where it is, so no lock is needed.
  R& result() ABSL_NO_THREAD_SAFETY_ANALYSIS { return *result_; }

 private:
  mutable absl::Mutex mutex_;
  std::optional<R> result_ ABSL_GUARDED_BY(mutex_);
  std::vector<Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

// A result that is on its way: absl::StatusOr<T>, or absl::Status for Future<void>.
//
// Every future of this SDK ends by itself, at the latest when its operation's timeout is over, so waiting for
// one needs no timeout. Dropping a future drops only the result: the operation goes on.
//
// Copies share one result. All functions may be called from any thread, except Get() && as said there.
template <class T>
class [[nodiscard]] Future {
 public:
  using Result = typename internal::ResultOf<T>::type;

  // Holds no result and never will: only valid() may be asked.
  Future() = default;
  explicit Future(std::shared_ptr<internal::FutureState<Result>> state) : state_(std::move(state)) {}

  // A future that has ended already.
  static Future Ready(Result result) {
    auto state = std::make_shared<internal::FutureState<Result>>();
    state->Set(std::move(result));
    return Future(std::move(state));
  }

  bool valid() const { return state_ != nullptr; }

  // True: Get() will not block.
  bool ready() const { return state_->ready(); }

  // Blocks until the result is there or the time is up; returns ready(). On a thread that runs callbacks (see
  // OnReady) it does not block.
  bool Wait(absl::Duration timeout) const { return state_->Wait(timeout); }
  bool WaitUntil(absl::Time deadline) const { return state_->Wait(deadline - absl::Now()); }

  // Blocks until the result is there. FAILED_PRECONDITION on a thread that runs callbacks, when the result is
  // not there yet: nothing could bring it while that thread waits.
  Result Get() const& {
    if (!Wait(absl::InfiniteDuration())) return WouldBlockForever();
    return state_->result();
  }
  // The same, and moves the value out: for the only user of a result, as in table.PullAsync(keys).Get().
  Result Get() && {
    if (!Wait(absl::InfiniteDuration())) return WouldBlockForever();
    return std::move(state_->result());
  }

  // Calls `callback` with the result, once: now, on this thread, if it is there already; otherwise on the
  // client's background thread, or on the thread whose call ended the operation. That thread serves all of
  // the client's operations: a callback should be short and must not block. It may start further operations.
  void OnReady(absl::AnyInvocable<void(const Result&)> callback) const {
    state_->OnReady(std::move(callback));
  }

  // The future of `next(result)`, which returns an absl::Status or an absl::StatusOr<U>. `next` is called as
  // by OnReady.
  template <class Next, class R = std::invoke_result_t<Next, const Result&>>
  Future<typename internal::ValueOf<R>::type> Then(Next next) const {
    auto chained = std::make_shared<internal::FutureState<R>>();
    OnReady([chained, next = std::move(next)](const Result& result) mutable {
      chained->Set(std::invoke(next, result));
    });
    return Future<typename internal::ValueOf<R>::type>(std::move(chained));
  }

 private:
  static absl::Status WouldBlockForever() {
    return absl::FailedPreconditionError(
        "Future::Get on a thread that runs the client's callbacks, for a result that is not there yet; use "
        "OnReady or Then, or wait on a thread of your own");
  }

  std::shared_ptr<internal::FutureState<Result>> state_;
};

}  // namespace paceline
