#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

// Leases between the members of a segment (PacificA, Lin et al. 2008). A primary answers only while every
// member it waits for has answered a beacon sent less than L ago, on the primary's own clock. A replica
// wishes for another primary only after G without a beacon, on its own clock. Since G exceeds L by more than
// the clocks' drift, no two members ever answer at the same time, and no two clocks are ever compared.
namespace paceline::log {

// The lease to begin with, and the longest lease when beacons are seen to be slow.
inline constexpr absl::Duration kLease = absl::Milliseconds(400);
inline constexpr absl::Duration kLeaseMax = absl::Seconds(3);
// Beacons are sent this many times within a lease.
inline constexpr int kBeaconsALease = 4;

// What can wait is done at the next beat, for many segments at a time: their beacons to a shard share a
// frame.
inline constexpr absl::Duration kBeat = absl::Milliseconds(100);  // kLease / kBeaconsALease
inline absl::Time NextBeat(absl::Time now) {
  return absl::UnixEpoch() + absl::Floor(now - absl::UnixEpoch(), kBeat) + kBeat;
}
// When an object wants to be visited (OnTime) next, unless something else happens to it first.
enum class NextVisit { kNever, kAtBeat, kSoon };

// The largest difference in rate between two machines' clocks, relative to the slower one. Quartz is a
// thousand times better; software that corrects a clock, or a virtual machine's clock, is not always.
inline constexpr double kDrift = 0.1;

// G: how long a replica that has lent `lease` waits for a beacon before it wishes for another primary.
inline absl::Duration Patience(absl::Duration lease) {
  return lease * (1 + kDrift) + absl::Milliseconds(100);
}

// How long a primary with lease `lease` tolerates a silent replica before it asks for a configuration without
// it; meanwhile it sends no answers. If the link broke, as it does when a process ends, the time is just long
// enough to rule out a delay. While the link stands the replica is more likely slow than gone. To drop it for
// a moment without processor time would leave one copy less for the next real failure. So the primary
// tolerates its silence for as long as writers may be made to wait (Replicas::kHoldsUpMax), less the time
// that the request takes.
inline absl::Duration SilenceBorne(absl::Duration lease, bool link_broke) {
  const absl::Duration least = lease + absl::Milliseconds(50);
  return link_broke ? least : std::max(least, absl::Milliseconds(900));
}

// The time that one member has lent the primary. Lives at the primary.
class LentTime {
 public:
  // Beacon `number` is being sent now.
  void Sent(uint64_t number, absl::Time now, absl::Duration lease) {
    constexpr size_t kUnderWayMax = 64;
    if (under_way_.size() == kUnderWayMax) under_way_.pop_front();
    under_way_.push_back({number, now, lease});
  }
  // Beacon `number` was answered. Returns its round trip; nullopt: an unknown or older beacon.
  std::optional<absl::Duration> Answered(uint64_t number, absl::Time now) {
    while (!under_way_.empty() && under_way_.front().number < number) under_way_.pop_front();
    if (under_way_.empty() || under_way_.front().number != number) return std::nullopt;
    const UnderWay beacon = under_way_.front();
    under_way_.pop_front();
    until_ = std::max(until_, beacon.sent + beacon.lease);
    last_ = std::max(last_, beacon.sent);
    return now - beacon.sent;
  }
  // The end of the loan.
  absl::Time until() const { return until_; }
  // When the newest answered beacon was sent.
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

// The length of the lease that the primary asks for: long enough for the round trips of the last 10 to 20
// seconds. So a busy machine does not lose its place, and one hiccup does not slow the next takeover for
// long.
class LeaseLength {
 public:
  void Observed(absl::Duration round_trip, absl::Time now) {
    if (now >= window_end_) {
      before_ = now < window_end_ + kWindow ? largest_ : absl::ZeroDuration();
      largest_ = absl::ZeroDuration();
      window_end_ = now + kWindow;
    }
    largest_ = std::max(largest_, round_trip);
    // A beacon every L/4 and a round trip of up to L/2: one beacon may be lost.
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
