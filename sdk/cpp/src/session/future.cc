#include "paceline/future.h"

#include <deque>
#include <utility>

#include "sdk/cpp/src/callback_thread.h"
#include "sdk/cpp/src/session/blocked_call.h"

namespace paceline {
namespace {

struct Queued {
  absl::AnyInvocable<void()> callback;
  std::shared_ptr<const sdk::Causes> causes;  // of the end that it belongs to
};
using Callbacks = std::deque<Queued>;

thread_local bool is_a_clients_thread = false;
thread_local Callbacks* running = nullptr;  // behind the callback that this thread is in; null: in none

}  // namespace

namespace internal {

bool WaitingIsForbidden() {
  // In a callback too, on any thread: its wait may depend on a callback that is queued behind it.
  return is_a_clients_thread || running != nullptr;
}

absl::Status WouldBlockForever() {
  return absl::FailedPreconditionError(
      "Future::Get: called from a callback, for a result that is not there yet; use OnReady, Then or "
      "AndThen, or "
      "wait on a thread of your own");
}

void RunCallback(absl::AnyInvocable<void()> callback) {
  if (running != nullptr) {
    running->push_back({std::move(callback), EndingCauses()});
    return;
  }
  struct Reset {
    ~Reset() { running = nullptr; }
  } reset;
  Callbacks callbacks;
  running = &callbacks;
  callback();
  callback = nullptr;  // what a callback holds is let go at once
  while (!callbacks.empty()) {
    Queued next = std::move(callbacks.front());
    callbacks.pop_front();
    const sdk::Ending ending(std::move(next.causes));
    next.callback();
  }
}

void JoinedFutures::Ended(size_t index, const absl::Status& status) {
  absl::Status all;
  {
    const std::lock_guard lock(mutex_);
    if (!status.ok() && (error_.ok() || index < first_)) {
      error_ = status;
      first_ = index;
    }
    if (--left_ > 0) return;
    all = error_;
  }
  state_->Set(std::move(all));
}

void JoinedFutures::Placed() {
  {
    const std::lock_guard lock(mutex_);
    if (--unplaced_ > 0) return;
  }
  state_->Place();
}

}  // namespace internal

namespace sdk {

void ThisThreadRunsCallbacks() {
  is_a_clients_thread = true;
}

RunsCallbacksHere::RunsCallbacksHere() : before_(std::exchange(is_a_clients_thread, true)) {}
RunsCallbacksHere::~RunsCallbacksHere() {
  is_a_clients_thread = before_;
}

}  // namespace sdk
}  // namespace paceline
