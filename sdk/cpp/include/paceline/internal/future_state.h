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
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

// How futures work within; include paceline/future.h instead.
namespace paceline {

template <class T>
class Future;

namespace sdk {
class Carrier;
struct Causes;
}  // namespace sdk

namespace internal {

// The result of a Future<T>: absl::Status for void, absl::StatusOr<T> otherwise.
template <class T>
using ResultOf = std::conditional_t<std::is_void_v<T>, absl::Status, absl::StatusOr<T>>;

// The reverse, for the types that continuations may return: the T of the future that they make. It is void
// for void and absl::Status.
template <class R>
struct ValueOf {
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

// The error of Get in that case.
absl::Status WouldBlockForever();

// What the operation waited for whose end this thread makes known; null: not known.
const std::shared_ptr<const sdk::Causes>& EndingCauses();

// Measures a call that blocks this thread, from here to End: two looks at the clock.
class BlockedCall {
 public:
  BlockedCall();
  // Null: the call ends, but what it waits for has not; the next call that knows says for what this one
  // waited.
  void End(const sdk::Causes* causes);

 private:
  const absl::Time began_;
};

// A thread's wait until `done()`, which other threads may call meanwhile. Made first, it carries frames of
// the client on this thread until then, or for a moment; this saves waking another thread for each of them.
// If `done()` is still false the thread sleeps, and lets go of this object when it has woken, without holding
// a lock that `done` takes.
class Carrying {
 public:
  explicit Carrying(absl::FunctionRef<bool()> done);
  ~Carrying();
  Carrying(const Carrying&) = delete;

 private:
  const absl::FunctionRef<bool()> done_;
  std::shared_ptr<sdk::Carrier> sleeps_;  // null: it need not hear of the end
};

// Runs `callback` on this thread: now, or, if called within another callback, after that one. So a chain of
// any length ends without a deep stack.
void RunCallback(absl::AnyInvocable<void()> callback);

// A shorter wait carries nothing, so that it does not become a longer one.
inline constexpr absl::Duration kCarryWorth = absl::Milliseconds(10);

template <class R>
class FutureState : public std::enable_shared_from_this<FutureState<R>> {
 public:
  using Callback = absl::AnyInvocable<void(const R&)>;
  using PlacedCallback = absl::AnyInvocable<void(const absl::Status&)>;

  // Stores the result, wakes the threads that wait for it, and runs the callbacks. Only the first call
  // counts; later ones return false and change nothing. Thread-safe.
  bool Set(R result) {
    std::vector<Callback> callbacks;
    std::vector<PlacedCallback> placed;
    const auto self = this->shared_from_this();  // who waits may let go of it once it has the result
    {
      const std::lock_guard lock(mutex_);
      if (result_.has_value()) return false;
      result_.emplace(std::move(result));
      causes_ = EndingCauses();
      callbacks.swap(callbacks_);
      placed.swap(on_placed_);
    }
    // Without the lock: who wakes up would only wait for it.
    ended_.notify_all();
    for (PlacedCallback& callback : placed) {
      RunCallback([self, callback = std::move(callback)]() mutable { callback(StatusOf(self->result())); });
    }
    for (Callback& callback : callbacks) {
      RunCallback([self, callback = std::move(callback)]() mutable { callback(self->result()); });
    }
    return true;
  }
  // The operation has its place in the order of its client's, before its result. Only the first call counts,
  // and only before Set. Thread-safe.
  void Place() {
    std::vector<PlacedCallback> callbacks;
    {
      const std::lock_guard lock(mutex_);
      if (placed_ || result_.has_value()) return;
      placed_ = true;
      callbacks.swap(on_placed_);
    }
    for (PlacedCallback& callback : callbacks) {
      RunCallback([callback = std::move(callback)]() mutable { callback(absl::OkStatus()); });
    }
  }
  // Adds a callback for Place, or else for Set, with the status of that; runs it at once if one of them was
  // called. Thread-safe.
  void OnPlaced(PlacedCallback callback) {
    absl::Status status;
    {
      const std::lock_guard lock(mutex_);
      if (!placed_ && !result_.has_value()) {
        on_placed_.push_back(std::move(callback));
        return;
      }
      if (!placed_) status = StatusOf(*result_);
    }
    callback(status);
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
    if (ready()) return true;
    if (WaitingIsForbidden()) return false;
    // The standard library's clock cannot hold more; a year stands for ever.
    const auto until =
        std::chrono::steady_clock::now() +
        absl::ToChronoNanoseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365)));
    BlockedCall call;
    const auto there = [this] { return ready(); };
    std::optional<Carrying> carrying;
    if (timeout > kCarryWorth) carrying.emplace(there);
    std::unique_lock lock(mutex_);
    const bool ended = ended_.wait_until(lock, until, [this] { return result_.has_value(); });
    lock.unlock();
    call.End(ended ? causes_.get() : nullptr);  // they do not change once there is a result
    return ended;
  }

  // REQUIRES: ready(). The result does not change once it is set, so no lock is needed.
  R& result() { return *result_; }

 private:
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable ended_;
  std::optional<R> result_;
  std::vector<Callback> callbacks_;
  bool placed_ = false;
  std::vector<PlacedCallback> on_placed_;
  std::shared_ptr<const sdk::Causes> causes_;
};

// Calls `next` and sets `state` to what it returns. If that is a future, sets `state` once the future ends,
// to its result.
template <class Value, class Next, class... Arguments>
void SetTo(const std::shared_ptr<FutureState<ResultOf<Value>>>& state, Next& next,
           const Arguments&... arguments) {
  using Returned = std::invoke_result_t<Next&, const Arguments&...>;
  if constexpr (std::is_void_v<Returned>) {
    std::invoke(next, arguments...);
    state->Set(absl::OkStatus());
  } else if constexpr (std::is_same_v<Returned, Future<Value>>) {
    const Future<Value> returned = std::invoke(next, arguments...);
    returned.Placed().OnReady([state](const absl::Status& placed) {
      if (placed.ok()) state->Place();
    });
    returned.OnReady([state](const auto& result) { state->Set(result); });
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

// Joins several futures into one: counts those that have not ended, and keeps the first error.
class JoinedFutures {
 public:
  explicit JoinedFutures(size_t count)
      : left_(count), unplaced_(count), state_(std::make_shared<FutureState<absl::Status>>()) {
    if (count == 0) state_->Set(absl::OkStatus());
  }
  // The future with this index has ended with `status`. Of several errors the one with the lowest index
  // stays.
  void Ended(size_t index, const absl::Status& status);
  // Another one has its place.
  void Placed();
  // Ends when all have ended.
  const std::shared_ptr<FutureState<absl::Status>>& state() const { return state_; }

 private:
  std::mutex mutex_;  // guards what follows
  size_t left_;
  size_t unplaced_;
  size_t first_ = 0;
  absl::Status error_;
  const std::shared_ptr<FutureState<absl::Status>> state_;
};

// Makes `future` report to `join`. `errors`: its error counts; otherwise it counts as OK.
template <class T>
void Add(const std::shared_ptr<JoinedFutures>& join, size_t index, bool errors, const Future<T>& future) {
  if (!future.valid()) {
    join->Placed();
    return join->Ended(index, absl::OkStatus());
  }
  future.Placed().OnReady([join](const absl::Status& placed) {
    if (placed.ok()) join->Placed();
  });
  future.OnReady([join, index, errors](const auto& result) {
    join->Ended(index, errors ? absl::Status(StatusOf(result)) : absl::OkStatus());
  });
}

template <class... Ts>
std::shared_ptr<FutureState<absl::Status>> JoinAll([[maybe_unused]] bool errors,
                                                   const Future<Ts>&... futures) {
  auto join = std::make_shared<JoinedFutures>(sizeof...(futures));
  [[maybe_unused]] size_t index = 0;
  (Add(join, index++, errors, futures), ...);
  return join->state();
}

template <class T>
std::shared_ptr<FutureState<absl::Status>> JoinAll(bool errors, const std::vector<Future<T>>& futures) {
  auto join = std::make_shared<JoinedFutures>(futures.size());
  for (size_t i = 0; i < futures.size(); ++i) Add(join, i, errors, futures[i]);
  return join->state();
}

}  // namespace internal
}  // namespace paceline
