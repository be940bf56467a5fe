#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "libs/base/planted.h"
#include "libs/log/replicas.h"

// A primary's followers, whose answers the test makes up.
namespace paceline::log {

using Answer = v1::ReplicateReply;

inline constexpr absl::Duration kMs = absl::Milliseconds(1);
inline constexpr SegmentId kSegmentHere{3};
inline constexpr ring::Member kFollower{.shard = ShardId(1), .incarnation = Incarnation(7)};
inline constexpr ring::Member kOther{.shard = ShardId(2), .incarnation = Incarnation(8)};

struct StillClock final : world::Clock {
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

struct SentFrames final : ReplicationPort {
  void Send(const ring::Member&, v1::ReplicateRequest::Segment head, absl::Cord body) override {
    heads.push_back(std::move(head));
    bodies.push_back(std::move(body));
  }
  void Send(const ring::Member&, const v1::Beacon& beacon) override { beacons.push_back(beacon); }
  void Wish(v1::ConfigWish wish) override { wishes.push_back(std::move(wish)); }
  uint64_t Link(const ring::Member&) override { return link; }
  absl::Duration NoCoordinator() const override { return no_coordinator; }

  std::vector<v1::ReplicateRequest::Segment> heads;
  std::vector<absl::Cord> bodies;  // of heads
  std::vector<v1::Beacon> beacons;
  std::vector<v1::ConfigWish> wishes;
  uint64_t link = 1;
  absl::Duration no_coordinator;
};

struct ReplicasTest : ::testing::Test {
  ~ReplicasTest() override { planted_bug = Bug::kNone; }

  // One tenure: a log that ends at `end`, with one replica, which has been asked where it stands.
  std::unique_ptr<Replicas> Tenure(Epoch epoch, Lsn end, bool durable = false, bool disk = false) {
    return Tenure(epoch, end, {kFollower}, durable, disk);
  }
  std::unique_ptr<Replicas> Tenure(Epoch epoch, Lsn end, const std::vector<ring::Member>& members,
                                   bool durable = false, bool disk = false) {
    auto replicas =
        std::make_unique<Replicas>(kSegmentHere, LogTail(LogPosition{.epoch = Epoch(1), .lsn = end}), &clock,
                                   port, &numbers, durable, disk);
    replicas->Begin(epoch, members);
    replicas->OnTime(segment);
    return replicas;
  }

  // "I hold the log up to `lsn`", to the exchange that the last frame was of.
  Answer::Ack Holds(Lsn lsn) const { return Says(Answer::HOLDS, lsn); }
  Answer::Ack Says(Answer::State state, Lsn lsn = {}, Answer::DiskState disk = Answer::NO_DISK,
                   Lsn durable = {}) const {
    Answer::Ack ack;
    ack.set_segment(kSegmentHere.v);
    ack.set_state(state);
    ack.set_lsn(lsn.v);
    ack.set_lsn_epoch(1);
    ack.set_transfer(port->heads.back().transfer());
    ack.set_disk(disk);
    ack.set_durable(durable.v);
    return ack;
  }
  void Append(Replicas& replicas, int records = 1) const {
    for (int i = 0; i < records; ++i) {
      replicas.Appended(AppliedRecord(Advance{.job = JobId(1), .min_clock = 1}));
    }
  }
  // Time passes, and `who` answers beacons at once.
  void Live(Replicas& replicas, absl::Duration duration, const ring::Member& who = kFollower) {
    for (const absl::Time end = clock.now + duration; clock.now < end;) {
      clock.now += 10 * kMs;
      replicas.OnTime(segment);
      if (!port->beacons.empty()) replicas.OnBeacon(who, port->beacons.back());
    }
  }
  std::vector<v1::ConfigWish::Kind> Wished() const {
    std::vector<v1::ConfigWish::Kind> kinds;
    for (const v1::ConfigWish& wish : port->wishes) kinds.push_back(wish.kind());
    return kinds;
  }

  StillClock clock;
  std::shared_ptr<SentFrames> port = std::make_shared<SentFrames>();
  uint64_t numbers = 0;  // of the segment, over all tenures
  Segment segment{kSegmentHere, /*ring_bits=*/3};
};

}  // namespace paceline::log
