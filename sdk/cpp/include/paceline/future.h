#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/internal/future_state.h"

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
// that adds the callback calls it at once. Otherwise the thread whose call ended the operation calls it, or
// the one that took the answer: one of the client's background threads, or a thread in a blocking call of
// this client. So hold no lock in a blocking call that a callback takes. Whoever calls it serves all of the
// client's operations: a callback should be short and must not wait, but it may start further operations. In
// a callback, Get returns FAILED_PRECONDITION instead of waiting for a result that might never come.
// Callbacks that become ready while another one runs follow it, so a chain of any length needs no deep stack.
template <class T>
class [[nodiscard]] Future {
 public:
  using Result = internal::ResultOf<T>;

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
    if (!Wait(absl::InfiniteDuration())) return internal::WouldBlockForever();
    return state_->result();
  }
  // The same, but moves the value out: for the only reader of a result, as in table.PullAsync(keys).Get().
  Result Get() && {
    if (!Wait(absl::InfiniteDuration())) return internal::WouldBlockForever();
    return std::move(state_->result());
  }

  // A future that ends, with OK, once the operation has its place in the order of its client's operations:
  // what starts then comes after it, on the streams and in every segment, though its result is not there yet.
  // So no round trip lies between them. A push has its place once it has started: a Tick after that ends a
  // clock that it is part of, and a Pull after that sees it, except under Asp. Of a chain, the operation that
  // `next` has started counts; of WhenAll, all. Other operations have their place when they have ended. If
  // the operation ends without a place, because one before it failed, the returned future ends with its
  // error. An error after that is the operation's own: Flush and Finish report it.
  //
  //   Future<void> pushed = weights.PullAsync(keys).AndThen(
  //       [=](const auto& values) mutable { return weights.PushAsync(keys, Gradient(batch, values)); });
  //   Future<void> ticked = client->TickAfter(pushed.Placed());  // does not wait until the push is committed
  Future<void> Placed() const;

  // Calls `callback` with the result once it is there, value or error: see Callbacks above.
  //
  //   weights.PushAsync(keys, gradients).OnReady([](const absl::Status& status) {
  //     if (!status.ok()) LOG(ERROR) << status;
  //   });
  void OnReady(absl::AnyInvocable<void(const Result&)> callback) const {
    state_->OnReady(std::move(callback));
  }

  // Calls `next(result)` once the result is there, whether it is a value or an error, and returns the future
  // of what `next` returns: void, absl::Status, absl::StatusOr<U>, or a Future<U>. In the last case the
  // returned future ends when that one does, so `next` may start an operation. Use it to recover from an
  // error; for what follows success only there is AndThen.
  template <class Next>
  auto Then(Next next) const {
    using Value = typename internal::ValueOf<std::invoke_result_t<Next&, const Result&>>::type;
    auto chained = std::make_shared<internal::FutureState<internal::ResultOf<Value>>>();
    OnReady([chained, next = std::move(next)](const Result& result) mutable {
      internal::SetTo<Value>(chained, next, result);
    });
    return Future<Value>(std::move(chained));
  }

  // As Then, but only for success: calls `next(value)`, or `next()` for Future<void>. After an error `next`
  // is not called, and the returned future ends with the error. So a chain of AndThen needs one check, at its
  // end. `next` must not keep a reference to the value: the value lives only as long as its future.
  template <class Next>
  auto AndThen(Next next) const {
    using Value = typename internal::ValueOf<typename internal::ReturnOnValue<T, Next>::type>::type;
    auto chained = std::make_shared<internal::FutureState<internal::ResultOf<Value>>>();
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
  std::shared_ptr<internal::FutureState<Result>> state_;
};

template <class T>
Future<void> Future<T>::Placed() const {
  auto placed = std::make_shared<internal::FutureState<absl::Status>>();
  state_->OnPlaced([placed](const absl::Status& status) { placed->Set(status); });
  return Future<void>(std::move(placed));
}

// A future that ends when all of `futures` have ended, whatever their types. Its result is OK if theirs are,
// otherwise the first error in the order of the arguments. The values stay in the futures themselves. A
// future that is not valid() counts as OK. An empty list ends at once. O(number of futures).
//
//   Future<void> both = WhenAll(weights.PushAsync(keys, gradients), bias.PushAsync({0}, {step}));
template <class... Ts>
Future<void> WhenAll(const Future<Ts>&... futures) {
  return Future<void>(internal::JoinAll(/*errors=*/true, futures...));
}
template <class T>
Future<void> WhenAll(const std::vector<Future<T>>& futures) {
  return Future<void>(internal::JoinAll(/*errors=*/true, futures));
}

// As WhenAll, but always OK: for operations that start once others have ended, whatever their results. For
// example, free the memory of a batch after all of its pushes, also after those that failed.
template <class... Ts>
Future<void> WhenAllEnded(const Future<Ts>&... futures) {
  return Future<void>(internal::JoinAll(/*errors=*/false, futures...));
}
template <class T>
Future<void> WhenAllEnded(const std::vector<Future<T>>& futures) {
  return Future<void>(internal::JoinAll(/*errors=*/false, futures));
}

}  // namespace paceline
