// Which followers are asked out, and which learners are asked to be added.
#include <gmock/gmock.h>

#include "libs/log/test_util/replicas_fixture.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// -- who is asked out --

TEST_F(ReplicasTest, AReplicaThatMakesProgressIsBorne) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  Append(*replicas, 2);
  Live(*replicas, 900 * kMs);
  replicas->OnAck(kFollower, Holds(Lsn(21)), segment);
  Live(*replicas, 1000 * kMs);
  EXPECT_THAT(Wished(), IsEmpty()) << "for a second from then";
  Live(*replicas, 10 * kMs);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::DROP));
  Live(*replicas, 140 * kMs);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::DROP)) << "the wish is under way";
  Live(*replicas, 10 * kMs);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::DROP, v1::ConfigWish::DROP));
  EXPECT_EQ(port->wishes[0].segment(), kSegmentHere.v);
  EXPECT_EQ(port->wishes[0].epoch(), 1u);
  EXPECT_EQ(port->wishes[0].members(0).shard(), kFollower.shard.v);
}

TEST_F(ReplicasTest, AReplicaWhoseDiskMakesProgressIsBorne) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), /*durable=*/true, /*disk=*/true);
  replicas->OnOwnDisk(Answer::DISK_READY, Lsn(20));
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_READY, Lsn(20)), segment);
  Append(*replicas, 2);
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(22), Answer::DISK_READY, Lsn(20)), segment);
  Live(*replicas, 900 * kMs);
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(22), Answer::DISK_READY, Lsn(21)), segment);
  Live(*replicas, 1000 * kMs);
  EXPECT_THAT(Wished(), IsEmpty());
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(22), Answer::DISK_READY, Lsn(22)), segment);
  Live(*replicas, 1500 * kMs);
  EXPECT_THAT(Wished(), IsEmpty()) << "it has everything";
}

TEST_F(ReplicasTest, AReplicaWhoseDiskStallsIsAskedOutOnlyWhereAcknowledgementsNeedDisks) {
  for (const bool durable : {false, true}) {
    port->wishes.clear();
    const auto replicas = Tenure(Epoch(1), Lsn(20), durable, /*disk=*/true);
    replicas->OnOwnDisk(Answer::DISK_READY, Lsn(20));
    replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_STALLS, Lsn(20)), segment);
    Live(*replicas, 50 * kMs);
    EXPECT_EQ(Wished().size(), durable ? 1u : 0u);
  }
}

TEST_F(ReplicasTest, IfItsOwnDiskFailsNobodyIsAskedOutForTheirs) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), /*durable=*/true, /*disk=*/true);
  replicas->OnOwnDisk(Answer::DISK_STALLS, Lsn(20));
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_STALLS, Lsn(20)), segment);
  Live(*replicas, 1500 * kMs);
  EXPECT_THAT(Wished(), IsEmpty());
}

// The first follower answers the next beacon. Returns when that was sent.
absl::Time HearFrom(const ring::Member& member, Replicas& replicas, ReplicasTest& test) {
  test.port->beacons.clear();
  while (test.port->beacons.empty()) {
    test.clock.now += kMs;
    replicas.OnTime(test.segment);
  }
  EXPECT_TRUE(replicas.OnBeacon(member, test.port->beacons.front()));
  return test.clock.now;
}

TEST_F(ReplicasTest, ASilentReplicaIsBorneForNoLongerThanItsTime) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  Live(*replicas, 300 * kMs);
  const absl::Time heard = HearFrom(kFollower, *replicas, *this);
  while (clock.now < heard + SilenceBorne(kLease, /*link_broke=*/false)) {
    clock.now += 10 * kMs;
    replicas->OnTime(segment);
  }
  EXPECT_THAT(Wished(), IsEmpty());
  clock.now += kMs;
  replicas->OnTime(segment);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::DROP));
}

TEST_F(ReplicasTest, SilenceIsCountedAcrossEpochsOfAReplicaAndFromItsFirstEpochOfAnother) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  replicas->Recruit(kOther);
  const absl::Time heard = HearFrom(kFollower, *replicas, *this);
  const auto silent = [&](absl::Duration until) {
    for (; clock.now < heard + until; clock.now += 10 * kMs) replicas->OnTime(segment);
  };
  silent(800 * kMs);
  replicas->Begin(Epoch(2), {kFollower, kOther});
  silent(890 * kMs);
  EXPECT_THAT(Wished(), IsEmpty());
  silent(1000 * kMs);
  ASSERT_THAT(Wished(), ElementsAre(v1::ConfigWish::DROP));
  ASSERT_EQ(port->wishes[0].members_size(), 1) << "the other one has been a replica for a moment";
  EXPECT_EQ(port->wishes[0].members(0).shard(), kFollower.shard.v);
}

TEST_F(ReplicasTest, AReplicaThatNoEpochNamedBeforeHasItsTimeToAnswer) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  Live(*replicas, 300 * kMs);
  replicas->Begin(Epoch(2), {kFollower, kOther});
  EXPECT_EQ(replicas->replicas(), 2u);
  replicas->OnTime(segment);
  EXPECT_THAT(Wished(), IsEmpty());
}

TEST_F(ReplicasTest, AReplicaOfAnotherLogIsAskedOutAndSentNoImage) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  replicas->OnAck(kFollower, Says(Answer::BEHIND, Lsn(25)), segment);
  EXPECT_FALSE(port->heads.back().has_image());
  replicas->OnTime(segment);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::DROP));
  EXPECT_EQ(replicas->committed(), Lsn());
}

TEST_F(ReplicasTest, ALearnerIsForgottenAfterFiveSecondsOfSilence) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  replicas->Recruit(kOther);
  for (int i = 0; i < 10; ++i, clock.now += 100 * kMs) replicas->OnTime(segment);
  const absl::Time heard = HearFrom(kOther, *replicas, *this);
  for (; clock.now < heard + absl::Seconds(5); clock.now += 100 * kMs) replicas->OnTime(segment);
  replicas->OnTime(segment);
  EXPECT_EQ(replicas->learners(), 1u);
  clock.now += kMs;
  replicas->OnTime(segment);
  EXPECT_EQ(replicas->learners(), 0u);
}

// It promised a recovery to follow the next epoch only. Without copies nothing else would ever begin one.
TEST_F(ReplicasTest, ForALearnerThatAwaitsTheNextEpochThePrimaryBeginsIt) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  replicas->Recruit(kOther);
  replicas->OnTime(segment);
  const auto fenced = [&](uint64_t epoch) {
    Answer::Ack ack = Says(Answer::FENCED);
    ack.set_epoch(epoch);
    return ack;
  };
  replicas->OnAck(kOther, fenced(1), segment);
  replicas->OnTime(segment);
  EXPECT_THAT(Wished(), IsEmpty()) << "it has promised nothing beyond this epoch";
  replicas->OnAck(kOther, fenced(2), segment);
  replicas->OnTime(segment);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::KEEP));
  replicas->Begin(Epoch(2), {});
  clock.now += 200 * kMs;
  replicas->OnTime(segment);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::KEEP)) << "this epoch it may follow";
  EXPECT_EQ(replicas->learners(), 1u);
}

// Once a wish is out to begin an epoch without it, it is not waited for in the next one. Otherwise it is: it
// may have been added by a wish whose answer is under way.
TEST_F(ReplicasTest, AnAwaitedLearnerThatFailsIsLeftOutByTheNextEpoch) {
  for (const bool fails : {false, true}) {
    port->wishes.clear();
    const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
    replicas->Recruit(kOther);
    replicas->OnTime(segment);
    replicas->OnAck(kOther, Holds(Lsn(20)), segment);
    Live(*replicas, 50 * kMs, kOther);
    ASSERT_TRUE(port->heads.back().awaited());
    EXPECT_THAT(Wished(), IsEmpty()) << "it does not know yet that it is";
    replicas->OnAck(kOther, Holds(Lsn(20)), segment);
    if (fails) {
      for (int i = 0; i < 95; ++i, clock.now += 10 * kMs) replicas->OnTime(segment);
      EXPECT_EQ(Wished().back(), v1::ConfigWish::KEEP);
      EXPECT_FALSE(replicas->Leased());
    } else {
      Live(*replicas, absl::Seconds(1), kOther);
      EXPECT_EQ(Wished().back(), v1::ConfigWish::ADD);
    }
    replicas->Begin(Epoch(2), {});
    EXPECT_EQ(replicas->learners(), fails ? 0u : 1u);
  }
}

}  // namespace
}  // namespace paceline::log
