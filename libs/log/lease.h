#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

// Leases between the members of a segment (PacificA, Lin et al. 2008): a primary answers only while every
// member it waits for has answered a beacon that was sent less than L ago on the primary's own clock; a
// replica wishes for another primary only after G without a beacon on its own. With G > L by more than clocks
// drift apart no two members ever answer at the same time, and no clock is compared with another.
namespace paceline::log {

// How long a primary may be silent to begin with, and at most, when beacons were seen to take their time.
inline constexpr absl::Duration kLease = absl::Milliseconds(400);
inline constexpr absl::Duration kLeaseMax = absl::Seconds(3);
// Beacons are sent this many times within a lease.
inline constexpr int kBeaconsALease = 4;

// By how much the rates of two machines' clocks may differ, as a part of the one that is slower. Quartz is a
// thousand times better; what steers a clock that is off, or a virtual machine's, is not always.
inline constexpr double kDrift = 0.1;

// G: how long a replica that has lent `lease` waits before it wishes for another primary.
inline absl::Duration Patience(absl::Duration lease) {
  return lease * (1 + kDrift) + absl::Milliseconds(100);
}

// How long a primary that was lent `lease` bears the silence of a replica before it asks it out; meanwhile it
// says nothing to anybody. Of one whose link has broken, as it does when a process ends, no longer than is
// sure to be no delay. While the link stands the replica is more likely slow than gone, and a copy that is
// given up for a moment without processor time is a copy less when the next one really fails: so it is borne
// for as long as writers may be made to wait (Replicas::kHoldsUpMax), less the time that asking takes.
inline absl::Duration SilenceBorne(absl::Duration lease, bool link_broke) {
  const absl::Duration least = lease + absl::Milliseconds(50);
  return link_broke ? least : std::max(least, absl::Milliseconds(900));
}

// What one member has lent the primary. The primary's side.
class LentTime {
 public:
  // Beacon `number` leaves now.
  void Sent(uint64_t number, absl::Time now, absl::Duration lease) {
    constexpr size_t kUnderWayMax = 64;
    if (under_way_.size() == kUnderWayMax) under_way_.pop_front();
    under_way_.push_back({number, now, lease});
  }
  // Beacon `number` was answered. Returns how long that took; nullopt: one that is not known.
  std::optional<absl::Duration> Answered(uint64_t number, absl::Time now) {
    while (!under_way_.empty() && under_way_.front().number < number) under_way_.pop_front();
    if (under_way_.empty() || under_way_.front().number != number) return std::nullopt;
    const UnderWay beacon = under_way_.front();
    under_way_.pop_front();
    until_ = std::max(until_, beacon.sent + beacon.lease);
    last_ = std::max(last_, beacon.sent);
    return now - beacon.sent;
  }
  // What is lent ends then.
  absl::Time until() const { return until_; }
  // When the newest beacon that was answered left.
  absl::Time last() const { return last_; }

 private:
  struct UnderWay {
    uint64_t number;
    absl::Time sent;
    absl::Duration lease;
  };
  std::deque<UnderWay> under_way_;  // by number
  absl::Time until_ = absl::InfinitePast();
  absl::Time last_ = absl::InfinitePast();
};

// How long a lease the primary asks for: long enough for the round trips that were seen in the last 10 to 20
// seconds, so that a busy machine does not cost it its place, and one hiccup does not make the next takeover
// slow for long.
class LeaseLength {
 public:
  void Observed(absl::Duration round_trip, absl::Time now) {
    if (now >= window_end_) {
      before_ = now < window_end_ + kWindow ? largest_ : absl::ZeroDuration();
      largest_ = absl::ZeroDuration();
      window_end_ = now + kWindow;
    }
    largest_ = std::max(largest_, round_trip);
    // A beacon every L/4 and a round trip of up to L/2 leave one beacon to be lost.
    length_ = std::clamp(3 * std::max(largest_, before_), kLease, kLeaseMax);
  }
  absl::Duration length() const { return length_; }

 private:
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  absl::Time window_end_ = absl::InfinitePast();
  absl::Duration largest_, before_;  // round trips of this window and of the one before
  absl::Duration length_ = kLease;
};

}  // namespace paceline::log
