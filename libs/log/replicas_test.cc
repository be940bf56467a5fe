#include "libs/log/replicas.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "libs/base/planted.h"

namespace paceline::log {
namespace {

constexpr SegmentId kSegmentHere{3};
constexpr ring::Member kFollower{.shard = ShardId(1), .incarnation = Incarnation(7)};

struct StillClock final : world::Clock {
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

struct SentFrames final : ReplicationPort {
  void Send(const ring::Member&, v1::ReplicateRequest::Segment head, absl::Cord) override {
    heads.push_back(std::move(head));
  }
  void Send(const ring::Member&, const v1::Beacon& beacon) override { beacons.push_back(beacon); }
  void Wish(v1::ConfigWish) override {}
  uint64_t Link(const ring::Member&) override { return 1; }

  std::vector<v1::ReplicateRequest::Segment> heads;
  std::vector<v1::Beacon> beacons;
};

struct ReplicasTest : ::testing::Test {
  ~ReplicasTest() override { planted_bug = Bug::kNone; }

  // One tenure: a log that ends at `end`, with one replica, which has been asked where it stands.
  std::unique_ptr<Replicas> Tenure(Epoch epoch, Lsn end) {
    auto replicas = std::make_unique<Replicas>(
        kSegmentHere, LogTail(LogPosition{.epoch = Epoch(1), .lsn = end}), &clock, port, &numbers);
    replicas->Begin(epoch, {kFollower});
    replicas->OnTime(segment);
    return replicas;
  }

  // "I hold the log up to `lsn`", to the exchange that the last frame was of.
  v1::ReplicateReply::Ack Holds(Lsn lsn) const {
    v1::ReplicateReply::Ack ack;
    ack.set_segment(kSegmentHere.v);
    ack.set_state(v1::ReplicateReply::HOLDS);
    ack.set_lsn(lsn.v);
    ack.set_lsn_epoch(1);
    ack.set_transfer(port->heads.back().transfer());
    return ack;
  }

  StillClock clock;
  std::shared_ptr<SentFrames> port = std::make_shared<SentFrames>();
  uint64_t numbers = 0;  // of the segment, over all tenures
  Segment segment{kSegmentHere, /*ring_bits=*/3};
};

// It was primary, was replaced, and is primary again, of a log that does not have what its follower held
// then.
TEST_F(ReplicasTest, AnswersToAnEarlierTenureDoNotCount) {
  v1::ReplicateReply::Ack late;
  {
    const auto first = Tenure(Epoch(1), Lsn(20));
    late = Holds(Lsn(20));
  }
  const auto second = Tenure(Epoch(3), Lsn(18));
  EXPECT_FALSE(second->OnAck(kFollower, late, segment));
  EXPECT_EQ(second->committed(), Lsn());
  EXPECT_TRUE(second->OnAck(kFollower, Holds(Lsn(18)), segment));
  EXPECT_EQ(second->committed(), Lsn(18));

  planted_bug = Bug::kEarlierAnswerCounts;
  const auto third = Tenure(Epoch(5), Lsn(18));
  EXPECT_TRUE(third->OnAck(kFollower, late, segment)) << "else this test could not fail";
}

TEST_F(ReplicasTest, WantsNothingButBeatsWhileItsReplicasHaveEverything) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kSoon) << "it has not said what it holds";
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kSoon) << "it has not answered a beacon";
  replicas->OnBeacon(kFollower, port->beacons.back());
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kAtBeat);
  replicas->Appended(AppliedRecord(Advance{.job = JobId(1), .min_clock = 1}));
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kSoon) << "it lacks a record";
  replicas->OnAck(kFollower, Holds(Lsn(21)), segment);
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kAtBeat);
  const absl::Time answered = clock.now;
  for (; clock.now < answered + kLease - kBeat; clock.now += kBeat) {
    EXPECT_EQ(replicas->OnTime(segment), NextVisit::kAtBeat) << clock.now - answered;
  }
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kSoon) << "what it lent ends before the next beat";
}

// So that those to one shard share a frame.
TEST_F(ReplicasTest, BeaconsOfAllSegmentsLeaveAtBeats) {
  std::vector<std::unique_ptr<Replicas>> segments;
  for (int i = 0; i < 3; ++i) {
    clock.now += absl::Milliseconds(17);
    segments.push_back(Tenure(Epoch(1), Lsn(20)));
    segments.back()->OnAck(kFollower, Holds(Lsn(20)), segment);
    segments.back()->OnTime(segment);
  }
  for (int i = 0; i < 5; ++i) {
    port->beacons.clear();
    for (const absl::Time beat = NextBeat(clock.now); clock.now < beat; clock.now += absl::Milliseconds(1)) {
      for (const auto& one : segments) one->OnTime(segment);
    }
    EXPECT_EQ(port->beacons.size(), i == 0 ? 0u : 3u) << "between two beats, the first of them included";
  }
}

}  // namespace
}  // namespace paceline::log
