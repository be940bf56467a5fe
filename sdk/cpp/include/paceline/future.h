#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

// Futures: results of operations that have not ended yet, and functions that make operations follow each
// other.
//
// **A task graph.** A job states which operation must come before which. Each operation then starts by itself
// once all operations before it have ended (Li et al., OSDI 2014):
//
//   Future<std::vector<float>> w = weights.PullAsync(keys);
//   Future<void> pushed = w.AndThen([=](const std::vector<float>& values) mutable {
//     return weights.PushAsync(keys, Gradient(batch, values));
//   });
//   Future<void> counted = counters.PushAsync({0}, {1.0f});
//   Future<void> ticked = client->TickAfter(WhenAll(pushed, counted));
//   Future<std::vector<float>> next = weights.PullAsync(next_keys, {.after = ticked});
//
// The timeout of an operation that waits for others counts from its own start. If an operation before it ends
// with an error, it does not start and ends with that error. Then and WhenAllEnded are the exceptions: they
// go on after an error.
//
// **Cost.** A future is a shared pointer to one allocation. Adding a callback takes its lock once, and so
// does ending it.
namespace paceline {

template <class T>
class Future;

namespace internal {

// The result of a Future<T>: absl::Status for void, absl::StatusOr<T> otherwise.
template <class T>
struct ResultOf {
  using type = absl::StatusOr<T>;
};
template <>
struct ResultOf<void> {
  using type = absl::Status;
};

// The reverse, for the types that continuations may return: the T of the future that they make.
template <class R>
struct ValueOf;
template <>
struct ValueOf<void> {
  using type = void;
};
template <>
struct ValueOf<absl::Status> {
  using type = void;
};
template <class T>
struct ValueOf<absl::StatusOr<T>> {
  using type = T;
};
template <class T>
struct ValueOf<Future<T>> {
  using type = T;
};

inline const absl::Status& StatusOf(const absl::Status& result) {
  return result;
}
template <class T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// True if waiting for a client's own future might never end: in a callback, and on a client's thread.
bool WaitingIsForbidden();

// Runs `callback` on this thread: now, or, if called within another callback, after that one. So a chain of
// any length ends without a deep stack.
void RunCallback(absl::AnyInvocable<void()> callback);

template <class R>
class FutureState : public std::enable_shared_from_this<FutureState<R>> {
 public:
  using Callback = absl::AnyInvocable<void(const R&)>;

  // Stores the result, wakes the threads that wait for it, and runs the callbacks. Only the first call
  // counts; later ones return false and change nothing. Thread-safe.
  bool Set(R result) {
    std::vector<Callback> callbacks;
    {
      const std::lock_guard lock(mutex_);
      if (result_.has_value()) return false;
      result_.emplace(std::move(result));
      callbacks.swap(callbacks_);
      ended_.notify_all();
    }
    for (Callback& callback : callbacks) {
      RunCallback([self = this->shared_from_this(), callback = std::move(callback)]() mutable {
        callback(self->result());
      });
    }
    return true;
  }
  // Adds a callback; runs it at once if the result is there. Thread-safe.
  void OnReady(Callback callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!result_.has_value()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(*result_);
  }
  // True once there is a result. Thread-safe.
  bool ready() const {
    const std::lock_guard lock(mutex_);
    return result_.has_value();
  }
  // Blocks until there is a result or `timeout` is over, unless WaitingIsForbidden(); true if there is one.
  bool Wait(absl::Duration timeout) const {
    std::unique_lock lock(mutex_);
    if (result_.has_value()) return true;
    if (WaitingIsForbidden()) return false;
    // The standard library's clock cannot hold more; a year stands for ever.
    const absl::Duration at_most = std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365));
    return ended_.wait_for(lock, absl::ToChronoNanoseconds(at_most), [this] { return result_.has_value(); });
  }

  // REQUIRES: ready(). The result does not change once it is set, so no lock is needed.
  R& result() { return *result_; }

 private:
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable ended_;
  std::optional<R> result_;
  std::vector<Callback> callbacks_;
};

// Calls `next` and sets `state` to what it returns. If that is a future, sets `state` once the future ends,
// to its result.
template <class Value, class Next, class... Arguments>
void SetTo(const std::shared_ptr<FutureState<typename ResultOf<Value>::type>>& state, Next& next,
           const Arguments&... arguments) {
  using Returned = std::invoke_result_t<Next&, const Arguments&...>;
  if constexpr (std::is_void_v<Returned>) {
    std::invoke(next, arguments...);
    state->Set(absl::OkStatus());
  } else if constexpr (std::is_same_v<Returned, Future<Value>>) {
    std::invoke(next, arguments...).OnReady([state](const auto& result) { state->Set(result); });
  } else {
    state->Set(std::invoke(next, arguments...));
  }
}

template <class T, class Next>
struct ReturnOnValue {
  using type = std::invoke_result_t<Next&, const T&>;
};
template <class Next>
struct ReturnOnValue<void, Next> {
  using type = std::invoke_result_t<Next&>;
};

}  // namespace internal

// The result of an operation that may not have ended yet: absl::StatusOr<T>, or absl::Status for
// Future<void>.
//
// Every future of this SDK ends by itself, at the latest when its operation's timeout is over, so waiting for
// one needs no timeout. Dropping a future drops only the result: the operation goes on, and so do the
// operations after it.
//
// **Ownership.** A future is a handle: copies share one result, which lives as long as one of them or an
// operation after it. Get() && moves the value out, so use it only if nobody else reads that result.
//
// **Threads.** Any thread may call any function. One future object may be read by several threads at once,
// but not assigned to at the same time, like a std::shared_ptr.
//
// **Callbacks** (of OnReady, Then and AndThen) are called once. If the result is there already, the thread
// that adds the callback calls it at once. Otherwise the client's background thread calls it, or the thread
// whose call ended the operation. That thread serves all of the client's operations: a callback should be
// short and must not wait, but it may start further operations. In a callback, Get returns
// FAILED_PRECONDITION instead of waiting for a result that might never come. Callbacks that become ready
// while another one runs follow it, so a chain of any length needs no deep stack.
template <class T>
class [[nodiscard]] Future {
 public:
  using Result = typename internal::ResultOf<T>::type;

  // A future without a result: valid() is the only function that may be called.
  Future() = default;
  explicit Future(std::shared_ptr<internal::FutureState<Result>> state) : state_(std::move(state)) {}

  // A future that has already ended with `result`.
  static Future Ready(Result result) {
    auto state = std::make_shared<internal::FutureState<Result>>();
    state->Set(std::move(result));
    return Future(std::move(state));
  }

  // False for a default-constructed future. As an `after` option, such a future means "at once".
  bool valid() const { return state_ != nullptr; }

  // True if the result is there: Get() will not block.
  bool ready() const { return state_->ready(); }

  // Blocks until the result is there or `timeout` is over; returns ready(). In a callback it does not block.
  bool Wait(absl::Duration timeout) const { return state_->Wait(timeout); }

  // Blocks until the result is there and returns a copy of it. FAILED_PRECONDITION in a callback, if the
  // result is not there yet.
  Result Get() const& {
    if (!Wait(absl::InfiniteDuration())) return WouldBlockForever();
    return state_->result();
  }
  // The same, but moves the value out: for the only reader of a result, as in table.PullAsync(keys).Get().
  Result Get() && {
    if (!Wait(absl::InfiniteDuration())) return WouldBlockForever();
    return std::move(state_->result());
  }

  // Calls `callback` with the result once it is there: see Callbacks above.
  void OnReady(absl::AnyInvocable<void(const Result&)> callback) const {
    state_->OnReady(std::move(callback));
  }

  // Calls `next(result)` once the result is there, whether it is a value or an error, and returns the future
  // of what `next` returns: void, absl::Status, absl::StatusOr<U>, or a Future<U>. In the last case the
  // returned future ends when that one does, so `next` may start an operation.
  template <class Next>
  auto Then(Next next) const {
    using Value = typename internal::ValueOf<std::invoke_result_t<Next&, const Result&>>::type;
    auto chained = std::make_shared<internal::FutureState<typename internal::ResultOf<Value>::type>>();
    OnReady([chained, next = std::move(next)](const Result& result) mutable {
      internal::SetTo<Value>(chained, next, result);
    });
    return Future<Value>(std::move(chained));
  }

  // As Then, but only for success: calls `next(value)`, or `next()` for Future<void>. After an error `next`
  // is not called, and the returned future ends with the error.
  template <class Next>
  auto AndThen(Next next) const {
    using Value = typename internal::ValueOf<typename internal::ReturnOnValue<T, Next>::type>::type;
    auto chained = std::make_shared<internal::FutureState<typename internal::ResultOf<Value>::type>>();
    OnReady([chained, next = std::move(next)](const Result& result) mutable {
      if (!result.ok()) {
        chained->Set(internal::StatusOf(result));
      } else if constexpr (std::is_void_v<T>) {
        internal::SetTo<Value>(chained, next);
      } else {
        internal::SetTo<Value>(chained, next, *result);
      }
    });
    return Future<Value>(std::move(chained));
  }

 private:
  static absl::Status WouldBlockForever() {
    return absl::FailedPreconditionError(
        "Future::Get: called from a callback, for a result that is not there yet; use OnReady, Then or "
        "AndThen, or wait on a thread of your own");
  }

  std::shared_ptr<internal::FutureState<Result>> state_;
};

namespace internal {

// Joins several futures into one: counts those that have not ended, and keeps the first error.
class Join {
 public:
  explicit Join(size_t count) : left_(count), state_(std::make_shared<FutureState<absl::Status>>()) {
    if (count == 0) state_->Set(absl::OkStatus());
  }
  // The future with this index has ended with `status`. Of several errors the one with the lowest index
  // stays.
  void Ended(size_t index, const absl::Status& status);
  Future<void> future() const { return Future<void>(state_); }

 private:
  std::mutex mutex_;  // guards what follows
  size_t left_;
  size_t first_ = 0;
  absl::Status error_;
  const std::shared_ptr<FutureState<absl::Status>> state_;
};

// Makes `future` report to `join`. `errors`: its error counts; otherwise it counts as OK.
template <class T>
void Add(const std::shared_ptr<Join>& join, size_t index, bool errors, const Future<T>& future) {
  if (!future.valid()) return join->Ended(index, absl::OkStatus());
  future.OnReady([join, index, errors](const auto& result) {
    join->Ended(index, errors ? absl::Status(StatusOf(result)) : absl::OkStatus());
  });
}

template <class... Ts>
Future<void> JoinAll([[maybe_unused]] bool errors, const Future<Ts>&... futures) {
  auto join = std::make_shared<Join>(sizeof...(futures));
  [[maybe_unused]] size_t index = 0;
  (Add(join, index++, errors, futures), ...);
  return join->future();
}

template <class T>
Future<void> JoinAll(bool errors, const std::vector<Future<T>>& futures) {
  auto join = std::make_shared<Join>(futures.size());
  for (size_t i = 0; i < futures.size(); ++i) Add(join, i, errors, futures[i]);
  return join->future();
}

}  // namespace internal

// A future that ends when all of `futures` have ended, whatever their types. Its result is OK if theirs are,
// otherwise the first error in the order of the arguments. The values stay in the futures themselves. A
// future that is not valid() counts as OK. An empty list ends at once. O(number of futures).
template <class... Ts>
Future<void> WhenAll(const Future<Ts>&... futures) {
  return internal::JoinAll(/*errors=*/true, futures...);
}
template <class T>
Future<void> WhenAll(const std::vector<Future<T>>& futures) {
  return internal::JoinAll(/*errors=*/true, futures);
}

// As WhenAll, but always OK: for operations that start once others have ended, whatever their results.
template <class... Ts>
Future<void> WhenAllEnded(const Future<Ts>&... futures) {
  return internal::JoinAll(/*errors=*/false, futures...);
}
template <class T>
Future<void> WhenAllEnded(const std::vector<Future<T>>& futures) {
  return internal::JoinAll(/*errors=*/false, futures);
}

}  // namespace paceline
