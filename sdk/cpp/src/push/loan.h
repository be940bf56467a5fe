#pragma once

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

// The values of a push whose caller waits: they are sent from where they lie. A batch and its frames share
// the memory, and the caller's call returns only when all of them have let go of it. Thread-safe.
class Loan {
 public:
  explicit Loan(absl::Span<const float> values)
      : memory_(const_cast<char*>(reinterpret_cast<const char*>(values.data())),
                [returned = returned_](char*) { returned->Notify(); }) {}

  // What the batch and its frames hold. Can be taken once.
  Buffer Take() { return std::move(memory_); }
  // Waits until nobody holds the memory any more, for at most `timeout`; false: somebody does. REQUIRES: it
  // was taken.
  bool AwaitReturn(absl::Duration timeout) {
    return Planted(Bug::kLentNotAwaited) || returned_->WaitForNotificationWithTimeout(timeout);
  }

 private:
  const std::shared_ptr<Notification> returned_ = std::make_shared<Notification>();
  Buffer memory_;
};

}  // namespace paceline::sdk
