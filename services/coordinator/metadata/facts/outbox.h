#pragma once

#include <deque>
#include <functional>
#include <utility>

namespace paceline::coordinator {

// Messages to others (answers, calls to shards, maps for watchers), held until a decision is complete. No
// outside code runs while the coordinator is between two states, so the receivers may call back at once.
class Outbox {
 public:
  void Add(std::function<void()> tell) { waiting_.push_back(std::move(tell)); }

  // Sends all messages, including those that are added meanwhile. A nested call does nothing: the outer one
  // continues.
  void Flush() {
    if (flushing_) return;
    flushing_ = true;
    while (!waiting_.empty()) {
      const std::function<void()> tell = std::move(waiting_.front());
      waiting_.pop_front();
      tell();
    }
    flushing_ = false;
  }

 private:
  std::deque<std::function<void()>> waiting_;
  bool flushing_ = false;
};

}  // namespace paceline::coordinator
