#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/world/port.h"

// Both ends of a stream, for tests of what carries it.
namespace paceline::carrier {

inline constexpr absl::Duration kSoon = absl::Seconds(60);  // for what should come at once

// Answers every frame with itself, and counts what becomes of it.
class Echo final : public world::AcceptedStream {
 public:
  void Attach(std::shared_ptr<world::StreamPort> port) override {
    MutexLock lock(&mutex_);
    port_ = std::move(port);
  }
  bool TakesFrame() override {
    MutexLock lock(&mutex_);
    return takes_;
  }
  void OnFrame(absl::Cord frame) override {
    std::shared_ptr<world::StreamPort> port;
    {
      MutexLock lock(&mutex_);
      ++frames_;
      answers_.push_back(std::move(frame));
      port = port_;
      changed_.SignalAll();
    }
    if (port != nullptr) port->KickSoon();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (chatters_) {
      *frame = absl::Cord(std::string(3'000, 'c'));
      return true;
    }
    if (answers_.empty()) return false;
    *frame = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }
  void OnFinished() override {}
  void OnBroken(absl::Status why) override {
    std::shared_ptr<world::StreamPort> port;
    MutexLock lock(&mutex_);
    port.swap(port_);
    broken_ = std::move(why);
    changed_.SignalAll();
  }

  std::shared_ptr<world::StreamPort> port() {
    MutexLock lock(&mutex_);
    return port_;
  }
  void Take(bool takes) {
    MutexLock lock(&mutex_);
    takes_ = takes;
  }
  void Chatter() {
    MutexLock lock(&mutex_);
    chatters_ = true;
  }
  bool AwaitFrames(size_t count) {
    MutexLock lock(&mutex_);
    return changed_.AwaitFor(&mutex_, kSoon, [&] { return frames_ >= count; });
  }
  size_t frames() {
    MutexLock lock(&mutex_);
    return frames_;
  }
  std::optional<absl::Status> AwaitBroken() {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, kSoon, [&] { return broken_.has_value(); });
    return broken_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<world::StreamPort> port_;
  std::deque<absl::Cord> answers_;
  size_t frames_ = 0;
  bool takes_ = true;
  bool chatters_ = false;
  std::optional<absl::Status> broken_;
};

// Sends what it is given, and keeps what comes.
class Caller final : public world::StreamHandler {
 public:
  void OnFrame(absl::Cord frame) override {
    MutexLock lock(&mutex_);
    came_.emplace_back(frame);
    changed_.SignalAll();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (to_send_.empty()) return false;
    *frame = std::move(to_send_.front());
    to_send_.pop_front();
    return true;
  }
  void OnBroken(absl::Status why) override {
    MutexLock lock(&mutex_);
    broken_ = std::move(why);
    changed_.SignalAll();
  }

  void Send(absl::Cord frame) {
    MutexLock lock(&mutex_);
    to_send_.push_back(std::move(frame));
  }
  void Send(std::string frame) { Send(absl::Cord(std::move(frame))); }
  bool Has(size_t count) {
    MutexLock lock(&mutex_);
    return came_.size() >= count;
  }
  std::vector<std::string> Await(size_t count) {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, kSoon, [&] { return came_.size() >= count || broken_.has_value(); });
    return came_;
  }
  // The same, and forgets them.
  std::vector<std::string> Take(size_t count) {
    std::vector<std::string> taken = Await(count);
    MutexLock lock(&mutex_);
    came_.clear();
    return taken;
  }
  std::optional<absl::Status> AwaitBroken() {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, kSoon, [&] { return broken_.has_value(); });
    return broken_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<absl::Cord> to_send_;
  std::vector<std::string> came_;
  std::optional<absl::Status> broken_;
};

}  // namespace paceline::carrier
