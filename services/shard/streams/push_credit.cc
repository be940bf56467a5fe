// What a push stream's client may send, and whether the stream is read (stream_budget.h).
#include <algorithm>

#include "services/shard/streams/push_stream.h"

namespace paceline::shard {
namespace {

// Refusals, or answers to ticks, that wait to be read. A client that lets more gather does not read at all.
constexpr int kAnswersMax = 64 * 1024;
// Frames under way. Those without parts take no bytes of the budget.
constexpr uint64_t kFramesMax = 16 * 1024;

}  // namespace

bool PushStream::TakesFrame() {
  MutexLock lock(&mutex_);
  stopped_ = Stopped();
  return !stopped_;
}

bool PushStream::Stopped() {
  // Asked once, and noted in the same breath: room that comes in between would wake nobody. A Hello is read
  // without room.
  const bool no_room = limit_ > 0 && NoRoom();
  if (no_room) context_.streams().Wait();
  const bool unread = reply_.refusals_size() >= kAnswersMax || reply_.ticks_size() >= kAnswersMax;
  const bool beyond = limit_ > 0 && arrived_ >= granted_ + context_.options().frame_bytes_max;
  return no_room || unread || beyond || under_way_ >= kFramesMax;
}

bool PushStream::NoRoom() const {
  return context_.streams().Full() || context_.disk_far_behind();
}

void PushStream::FrameBegun(uint64_t bytes, bool free) {
  MutexLock lock(&mutex_);
  if (free && !fixed_) bytes = 0;
  frames_.push_back({.bytes = bytes});
  ++under_way_;
  arrived_ += bytes;
  if (arrived_ <= limit_) return;
  context_.streams().Overrun(arrived_ - limit_);
  limit_ = arrived_;
}

// A client that waits for a grant must hear of it at once; otherwise the next frames may come first.
void PushStream::FrameDone(uint64_t frame, absl::Time arrived, int64_t taken_ns) {
  std::shared_ptr<world::StreamPort> port;
  bool soon = false;
  bool read_on = false;
  const absl::Duration total = context_.clock().Now() - arrived;
  if (taken_ns >= 0) context_.probe().PushServed(absl::Nanoseconds(taken_ns), total);
  {
    MutexLock lock(&mutex_);
    frames_[frame - received_ - 1].done = true;
    --under_way_;
    FreeEnded();
    if (taken_ns >= 0 && !fixed_) {
      const absl::Duration taken = absl::Nanoseconds(taken_ns);
      reply_.set_frame_queue_us(absl::ToInt64Microseconds(taken));
      reply_.set_frame_apply_us(absl::ToInt64Microseconds(total - taken));
    }
    soon = unsaid_bytes_ < context_.streams().Share() / 4;
    read_on = stopped_ && !Stopped();
    port = port_;
  }
  if (port == nullptr) return;
  if (soon) {
    port->KickSoon();
  } else {
    port->Kick();
  }
  if (read_on) port->ReadOn();
}

// Frames end in any order. The client hears how many of the first ones have ended, since it counts their
// sizes.
void PushStream::FreeEnded() {
  StreamBudget& budget = context_.streams();
  const bool slow = port_ != nullptr && context_.disk_slow();
  if (slow) budget.Wait();
  if (slow && fixed_) return;  // its frames stay under way instead
  uint64_t ended = 0;
  while (!frames_.empty() && frames_.front().done) {
    ended += frames_.front().bytes;
    ++received_;
    frames_.pop_front();
    dirty_ = true;
  }
  freed_ += ended;
  unsaid_bytes_ += ended;
  if (port_ == nullptr || slow) return budget.Free(ended);
  if (fixed_) {
    granted_ = freed_ + window_;
    budget.Free(ended - (std::max(limit_, granted_) - limit_));
    limit_ = std::max(limit_, granted_);
    return;
  }
  const uint64_t more = budget.Renew(ended, limit_ - freed_);
  if (more == 0) return;
  limit_ += more;
  granted_ = limit_;
  dirty_ = true;
}

void PushStream::OnRoom() {
  std::shared_ptr<world::StreamPort> port;
  bool read_on = false;
  {
    MutexLock lock(&mutex_);
    if (ended() || port_ == nullptr || limit_ == 0) return;
    FreeEnded();
    read_on = stopped_ && !Stopped();
    port = port_;
  }
  port->Kick();
  if (read_on) port->ReadOn();
}

}  // namespace paceline::shard
