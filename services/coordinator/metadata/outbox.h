#pragma once

#include <deque>
#include <functional>
#include <utility>

namespace paceline::coordinator {

// What is to be told to others — answers, calls to shards, maps to watchers — once a decision is complete.
// Nobody outside is called while the coordinator is between two states, so whoever is called may call back
// at once.
class Outbox {
 public:
  void Add(std::function<void()> tell) { waiting_.push_back(std::move(tell)); }

  // Tells everything, what is added meanwhile too. Within itself it does nothing: the outer one goes on.
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
