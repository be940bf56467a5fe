#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "libs/base/planted.h"

namespace paceline::shard {

// The memory that all push streams together may fill with frames that their clients have sent and the shard
// has not freed. A stream *holds* what its client was granted and the shard has not freed since; a frame is
// freed when its parts are applied, staged or refused. Rules:
//
//   1. A client sends a frame with parts, of any size, while the bytes it was granted exceed those it has
//      sent. So a grant of one byte is enough for the largest frame. Frames without parts are free: a tick
//      never waits for a grant.
//   2. All streams together hold no more than `bytes_max`, but for one byte each, and for the rest of each
//      client's last frame.
//   3. A stream that holds nothing is granted something whatever others hold. So one whose frames are all
//      freed may always send another one: a fast worker never keeps out the slow one that frees its staged
//      parts.
//   4. A stream is granted no more than its share of one half of `bytes_max`. The other half is for streams
//      that come later, while those of idle clients hold what they were granted when they were fewer. If
//      many clients come one after another and go idle, they hold all of it; one that comes then begins with
//      one byte, and sends one frame a round trip until they push again.
//
// What is held is freed by executors alone, which wait for nobody: no frame that has not been read, no tick
// and no other stream. Staged parts have a budget of their own (log::StagingRoom). While the disk is slow
// grants wait (Context::disk_slow); it then works more off, or counts as failing, and parts are refused.
//
// Thread-safe, without locks.
class StreamBudget {
 public:
  // `stream_max`: no stream is granted more than this ahead.
  StreamBudget(uint64_t bytes_max, uint64_t stream_max) : bytes_max_(bytes_max), stream_max_(stream_max) {}

  // A stream begins. Returns what it is granted: `most`, if there is room. Later it ends, once.
  uint64_t Begin(uint64_t most) {
    streams_.fetch_add(1, std::memory_order_relaxed);
    return Renew(0, 0, most);
  }
  void End() { streams_.fetch_sub(1, std::memory_order_relaxed); }

  // A stream frees `freed` bytes and holds `held` after that. Returns how many bytes more it is granted, and
  // holds.
  uint64_t Renew(uint64_t freed, uint64_t held, uint64_t most = UINT64_MAX) {
    const uint64_t share = std::min(Share(), most);
    const uint64_t wanted = share > held ? share - held : 0;
    const uint64_t least = held == 0 ? 1 : 0;
    uint64_t taken = held_.load(std::memory_order_relaxed);
    uint64_t more = 0;
    do {
      const uint64_t others = taken - freed;
      more = std::max(least, std::min(wanted, others < bytes_max_ ? bytes_max_ - others : 0));
    } while (!held_.compare_exchange_weak(taken, taken - freed + more, std::memory_order_relaxed));
    return more;
  }
  void Free(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }
  // A client has sent so much more than it was granted.
  void Overrun(uint64_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }

  // What one stream may hold as things are.
  uint64_t Share() const {
    const uint64_t streams = std::max<uint64_t>(1, streams_.load(std::memory_order_relaxed));
    return std::clamp<uint64_t>(bytes_max_ / 2 / streams, 1, stream_max_);
  }

  // Clients have sent far more than they were granted, in large frames of very many streams or against the
  // rules. No stream is read until executors have freed some.
  bool Full() const { return held() > 2 * bytes_max_; }

  // A stream waits for a grant, or to be read. It is visited (WatchedStream::OnTime) once there is room.
  void Wait() {
    waits_.fetch_add(1, std::memory_order_relaxed);
    waiting_ = true;
  }
  bool waiting() const { return waiting_; }
  // True: those that wait are to be visited now.
  bool TakeWaiting() { return waiting_.exchange(false) && !Planted(Bug::kGrantForgotten); }

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t streams() const { return streams_.load(std::memory_order_relaxed); }
  // So many times a stream had to wait.
  uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  const uint64_t bytes_max_;
  const uint64_t stream_max_;
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> streams_{0};
  std::atomic<uint64_t> waits_{0};
  std::atomic<bool> waiting_{false};
};

}  // namespace paceline::shard
