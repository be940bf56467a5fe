#include "libs/log/replicas.h"

#include <gmock/gmock.h>

#include "libs/log/test_util/replicas_fixture.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

// -- who may answer, and for how long --

TEST_F(ReplicasTest, ALeaseIsOverAtItsVeryEnd) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  EXPECT_FALSE(replicas->Leased());
  const absl::Time sent = clock.now;
  clock.now += 70 * kMs;
  ASSERT_TRUE(replicas->OnBeacon(kFollower, port->beacons.back()));
  clock.now = sent + kLease - absl::Nanoseconds(1);
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  EXPECT_TRUE(replicas->Leased());
  EXPECT_EQ(replicas->WaitsFor(), "");
  clock.now = sent + kLease;
  EXPECT_FALSE(replicas->Leased());
  EXPECT_EQ(replicas->WaitsFor(), "shard 1 (incarnation 7)");
}

TEST_F(ReplicasTest, OnlyAnswersToBeaconsOfThisEpochLend) {
  const auto replicas = Tenure(Epoch(2), Lsn(20));
  v1::Beacon earlier = port->beacons.back();
  earlier.set_epoch(1);
  EXPECT_FALSE(replicas->OnBeacon(kFollower, earlier));
  EXPECT_FALSE(replicas->OnBeacon(kOther, port->beacons.back())) << "no follower";
  v1::Beacon unsent = port->beacons.back();
  unsent.set_number(unsent.number() - 1);
  EXPECT_FALSE(replicas->OnBeacon(kFollower, unsent));
  EXPECT_FALSE(replicas->Leased());
  EXPECT_TRUE(replicas->OnBeacon(kFollower, port->beacons.back()));
  EXPECT_TRUE(replicas->Leased());
}

TEST_F(ReplicasTest, WithoutFollowersNobodyIsAsked) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  EXPECT_TRUE(replicas->Leased());
  EXPECT_EQ(replicas->committed(), Lsn(20));
  EXPECT_EQ(replicas->safe(), Lsn(20));
  EXPECT_EQ(replicas->OnTime(segment), NextVisit::kNever);
}

TEST_F(ReplicasTest, AnEpochBeginsWithBeaconsAndTheCommitPointOfItsMembers) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  port->beacons.clear();
  replicas->Begin(Epoch(2), {});
  EXPECT_EQ(replicas->committed(), Lsn(20)) << "nobody is waited for any more";
  EXPECT_EQ(replicas->replicas() + replicas->learners(), 0u);
  replicas->Begin(Epoch(3), {kFollower});
  replicas->OnTime(segment);
  ASSERT_EQ(port->beacons.size(), 1u) << "not only at the next beat";
  EXPECT_EQ(port->beacons[0].epoch(), 3u);
}

TEST_F(ReplicasTest, TheHeirOfAPrimaryThatIsCutOffHasReachedACoordinatorSince) {
  // A coordinator has answered the replica one millisecond less ago than it says; 0: it says nothing.
  const auto is_heir = [&](std::vector<uint64_t> ages_ms) {
    const auto replicas = Tenure(Epoch(1), Lsn(20));
    replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
    for (const uint64_t age_ms : ages_ms) {
      port->beacons.clear();
      clock.now = NextBeat(clock.now);
      replicas->OnTime(segment);
      v1::Beacon beacon = port->beacons.at(0);
      beacon.set_coordinator_age_ms(age_ms);
      EXPECT_TRUE(replicas->OnBeacon(kFollower, beacon));
    }
    port->no_coordinator = Replicas::kNoCoordinator + 500 * kMs;
    const bool heir = replicas->Heir() == kFollower;
    port->no_coordinator = {};
    return heir;
  };
  EXPECT_FALSE(is_heir({0}));
  EXPECT_TRUE(is_heir({1}));
  EXPECT_TRUE(is_heir({501}));
  EXPECT_FALSE(is_heir({502}));
  EXPECT_TRUE(is_heir({1, 3000})) << "what it said first is still true";
  EXPECT_TRUE(is_heir({3000, 1}));
}

// -- what is committed, and safe --

TEST_F(ReplicasTest, ADurableRecordIsCommittedOnceEveryDiskHasIt) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), /*durable=*/true, /*disk=*/true);
  EXPECT_FALSE(
      replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_READY, Lsn(17)), segment));
  EXPECT_TRUE(replicas->OnOwnDisk(Answer::DISK_READY, Lsn(19)));
  EXPECT_EQ(replicas->committed(), Lsn(17));
  EXPECT_TRUE(replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_READY, Lsn(20)), segment));
  EXPECT_EQ(replicas->committed(), Lsn(19));
  EXPECT_EQ(replicas->safe(), Lsn(19));
  EXPECT_FALSE(replicas->OnOwnDisk(Answer::DISK_READY, Lsn(19))) << "nothing new";
}

// It says so in the answer that tells that it lacks records, before it holds any of them.
TEST_F(ReplicasTest, TheDiskOfAReplicaThatIsBehindCounts) {
  for (const bool durable : {true, false}) {
    const auto replicas = Tenure(Epoch(1), Lsn(20), durable, /*disk=*/true);
    Append(*replicas, 3);
    replicas->OnOwnDisk(Answer::DISK_READY, Lsn(23));
    EXPECT_TRUE(
        replicas->OnAck(kFollower, Says(Answer::BEHIND, Lsn(20), Answer::DISK_READY, Lsn(18)), segment));
    EXPECT_EQ(replicas->committed(), Lsn(durable ? 18 : 20));
    EXPECT_EQ(replicas->safe(), Lsn(18));
    EXPECT_EQ(port->heads.back().records(), 3u) << "what it lacks is sent at once";
    EXPECT_EQ(port->heads.back().lsn(), 20u);
  }
}

TEST_F(ReplicasTest, ADiskThatStallsOrHasNoBaseNeedNotHaveARecordForItToBeSafe) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), /*durable=*/false, /*disk=*/true);
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_FILLS, Lsn(3)), segment);
  EXPECT_EQ(replicas->committed(), Lsn(20));
  EXPECT_EQ(replicas->safe(), Lsn()) << "none of the two disks could bring it back";
  replicas->OnOwnDisk(Answer::DISK_READY, Lsn(19));
  EXPECT_EQ(replicas->safe(), Lsn(19));
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_READY, Lsn(18)), segment);
  EXPECT_EQ(replicas->safe(), Lsn(19)) << "what was safe stays so";
  replicas->OnOwnDisk(Answer::DISK_READY, Lsn(20));
  EXPECT_EQ(replicas->safe(), Lsn(19));
  replicas->OnAck(kFollower, Says(Answer::HOLDS, Lsn(20), Answer::DISK_STALLS, Lsn(18)), segment);
  EXPECT_EQ(replicas->safe(), Lsn(20));
}

TEST_F(ReplicasTest, ALearnersDiskDoesNotCount) {
  const auto replicas =
      Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{}, /*durable=*/false, /*disk=*/true);
  replicas->Recruit(kOther);
  replicas->OnTime(segment);
  replicas->OnAck(kOther, Says(Answer::HOLDS, Lsn(20), Answer::DISK_READY, Lsn(4)), segment);
  replicas->OnOwnDisk(Answer::DISK_READY, Lsn(20));
  EXPECT_EQ(replicas->safe(), Lsn(20));
}

// -- answers --

TEST_F(ReplicasTest, AnswersOfNobodyAndOfOtherExchangesDoNotCount) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  EXPECT_FALSE(replicas->OnAck(kOther, Holds(Lsn(20)), segment));
  Answer::Ack other = Holds(Lsn(20));
  other.set_transfer(other.transfer() + 1);
  EXPECT_FALSE(replicas->OnAck(kFollower, other, segment));
  EXPECT_EQ(replicas->committed(), Lsn());
}

TEST_F(ReplicasTest, AReplicaThatMissedAFrameIsAskedWhereItStands) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  Append(*replicas, 2);
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  const uint64_t exchange = port->heads.back().transfer();
  replicas->OnAck(kFollower, Says(Answer::BEHIND, Lsn(20)), segment);
  EXPECT_NE(port->heads.back().transfer(), exchange);
  EXPECT_EQ(port->heads.back().records(), 0u);
  EXPECT_EQ(port->heads.back().lsn(), 22u);
  replicas->OnAck(kFollower, Says(Answer::BEHIND, Lsn(20)), segment);
  EXPECT_EQ(port->heads.back().records(), 2u);
}

TEST_F(ReplicasTest, AFollowerThatKnowsANewerEpochIsAskedAgain) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  const auto fenced = [&] {
    Answer::Ack ack = Says(Answer::FENCED);
    ack.set_epoch(2);
    return ack;
  };
  replicas->OnAck(kFollower, fenced(), segment);
  size_t sent = port->heads.size();
  clock.now += kMs;
  replicas->OnTime(segment);
  EXPECT_EQ(port->heads.size(), sent + 1) << "at once: its answer was one";

  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  replicas->OnAck(kFollower, fenced(), segment);
  sent = port->heads.size();
  clock.now += kMs;
  replicas->OnTime(segment);
  EXPECT_EQ(port->heads.size(), sent) << "it is sent each record all the same";
}

// The follower knew of epoch 2 before this primary did, and refused what was of epoch 1. Nobody is served
// until it has answered, so the primary does not wait for its next visit.
TEST_F(ReplicasTest, AFollowerThatRefusedAnEarlierEpochIsAskedAgainAtOnce) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  Answer::Ack fenced = Says(Answer::FENCED);
  fenced.set_epoch(2);
  replicas->Begin(Epoch(2), {kFollower});
  const size_t sent = port->heads.size();
  replicas->OnAck(kFollower, fenced, segment);
  ASSERT_EQ(port->heads.size(), sent + 1);
  EXPECT_EQ(port->heads.back().epoch(), 2u);
  EXPECT_NE(port->heads.back().transfer(), fenced.transfer());
  Answer::Ack again = Says(Answer::FENCED);
  again.set_epoch(2);
  replicas->OnAck(kFollower, again, segment);
  EXPECT_EQ(port->heads.size(), sent + 1) << "it refuses this epoch too: not before the next visit";
}

TEST_F(ReplicasTest, AnImageThatIsRefusedBeginsAgain) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  replicas->SetPace({.pages = 0, .frame_bytes = 1});
  replicas->Recruit(kOther);
  replicas->OnTime(segment);
  replicas->OnAck(kOther, Says(Answer::NO_STATE), segment);
  ASSERT_TRUE(port->heads.back().has_image());
  Answer::Ack fenced = Says(Answer::FENCED);
  fenced.set_epoch(2);
  replicas->OnAck(kOther, fenced, segment);
  replicas->OnTime(segment);
  EXPECT_FALSE(port->heads.back().has_image()) << "it is asked where it stands";
}

// The state that it kept while the image was under way counts again.
TEST_F(ReplicasTest, ALearnerThatFellBackFromAnImageGoesOnWithRecords) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  replicas->SetPace({.pages = 0, .frame_bytes = 1});
  replicas->Recruit(kOther);
  replicas->OnTime(segment);
  replicas->OnAck(kOther, Says(Answer::NO_STATE), segment);
  ASSERT_TRUE(port->heads.back().has_image());
  port->link = 2;
  replicas->OnTime(segment);
  replicas->OnAck(kOther, Says(Answer::BEHIND, Lsn(20)), segment);
  Live(*replicas, 50 * kMs, kOther);
  EXPECT_TRUE(port->heads.back().awaited()) << "it has caught up";
  replicas->OnAck(kOther, Holds(Lsn(20)), segment);
  EXPECT_THAT(Wished(), IsEmpty());
  Live(*replicas, 10 * kMs, kOther);
  EXPECT_THAT(Wished(), ElementsAre(v1::ConfigWish::ADD));
}

// -- how much of the log is kept --

TEST_F(ReplicasTest, TheLogIsKeptForAReplicaHoweverFarItIsBehindAndForALearnerToALimit) {
  for (const bool replica : {true, false}) {
    const auto replicas =
        Tenure(Epoch(1), Lsn(20), replica ? std::vector{kFollower} : std::vector<ring::Member>{});
    replicas->Recruit(kFollower);
    replicas->OnTime(segment);
    replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
    const std::string bytes(Replicas::kBacklogMax / 8, 'v');
    Update update = MakeUpdate(SessionId(7), 1, {{5, 1.0f}});
    update.values = bytes;
    const Record eighth = update;
    for (int i = 0; i < 7; ++i) replicas->Appended(AppliedRecord(eighth));
    EXPECT_FALSE(replicas->Backlogged());
    EXPECT_EQ(replicas->tail().base().lsn, Lsn(20));
    replicas->Appended(AppliedRecord(eighth));
    EXPECT_EQ(replicas->Backlogged(), replica);
    EXPECT_EQ(replicas->tail().base().lsn, Lsn(replica ? 20 : 28));
    const uint64_t exchange = port->heads.back().transfer();
    replicas->OnTime(segment);
    EXPECT_EQ(port->heads.back().transfer() == exchange, replica) << "a learner begins again";
    if (!replica) continue;
    replicas->OnAck(kFollower, Holds(Lsn(28)), segment);
    EXPECT_FALSE(replicas->Backlogged());
    EXPECT_EQ(replicas->tail().base().lsn, Lsn(28));
  }
}

// A clock of a large aggregated table is one record.
TEST_F(ReplicasTest, ALargeRecordGoesInPiecesAndALearnerWaitsForIt) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  replicas->Recruit(kFollower);
  replicas->OnTime(segment);
  replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
  const std::string values(Replicas::kBacklogMax + 1, 'v');
  Update update = MakeUpdate(SessionId(7), 1, {{5, 1.0f}});
  update.values = values;
  const Record large = update;
  const AppliedRecord record(large);
  const size_t before = port->heads.size();
  replicas->Appended(record);
  EXPECT_FALSE(replicas->Backlogged());
  EXPECT_EQ(replicas->tail().base().lsn, Lsn(20)) << "a learner gets it, too";
  replicas->Pump(segment);
  const uint64_t piece = Replicas::ImagePace().record_bytes;
  absl::Cord body;
  for (size_t i = before; i < port->heads.size(); ++i) {
    EXPECT_LE(port->heads.size() - i, 4u) << "under way";
    EXPECT_EQ(port->heads[i].lsn(), 20u);
    EXPECT_EQ(port->heads[i].record_at(), body.size());
    EXPECT_EQ(port->heads[i].records(), port->bodies[i].size() < piece ? 1u : 0u);
    EXPECT_LE(port->bodies[i].size(), piece);
    EXPECT_FALSE(port->bodies[i].empty());
    body.Append(port->bodies[i]);
    Answer::Ack ack = Holds(Lsn(20));
    ack.set_record_bytes(body.size());
    replicas->OnAck(kFollower, ack, segment);
  }
  EXPECT_GT(port->heads.size(), before + 10);
  const auto records = SplitRecords(body, 1);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->at(0), record.bytes());
}

// The follower knows of the epoch before its pieces come, and refuses all that are under way.
TEST_F(ReplicasTest, ALargeRecordBeginsAgainInANewEpoch) {
  for (const bool refused_first : {true, false}) {
    const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
    replicas->SetPace({.record_bytes = 8});
    replicas->Recruit(kFollower);
    replicas->OnTime(segment);
    replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
    Append(*replicas, 10);
    replicas->Pump(segment);
    ASSERT_GT(port->heads.back().record_at(), 0u);
    Answer::Ack refused = Says(Answer::FENCED);
    refused.set_epoch(2);
    if (refused_first) replicas->OnAck(kFollower, refused, segment);
    replicas->Begin(Epoch(2), {});
    EXPECT_TRUE(port->bodies.back().empty()) << "asks for its position";
    if (!refused_first) replicas->OnAck(kFollower, refused, segment);
    const size_t before = port->heads.size();
    replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
    ASSERT_GT(port->heads.size(), before);
    EXPECT_EQ(port->heads[before].record_at(), 0u);
    EXPECT_EQ(port->heads[before].epoch(), 2u);
  }
}

TEST_F(ReplicasTest, AReplicaThatTakesALargeRecordPieceByPieceIsNotAskedOut) {
  for (const bool pieces_come : {true, false}) {
    port->wishes.clear();
    const auto replicas = Tenure(Epoch(1), Lsn(20));
    replicas->SetPace({.record_bytes = 8});
    replicas->OnAck(kFollower, Holds(Lsn(20)), segment);
    Append(*replicas);
    replicas->Pump(segment);
    for (uint64_t bytes = 8; bytes <= 80; bytes += 8) {
      Live(*replicas, Replicas::kHoldsUpMax / 4);
      Answer::Ack ack = Holds(Lsn(20));
      if (pieces_come) ack.set_record_bytes(bytes);
      replicas->OnAck(kFollower, ack, segment);
    }
    EXPECT_EQ(Wished().empty(), pieces_come);
    // A link that breaks again and again amid the record is no progress.
    for (int i = 0; i < 10; ++i) {
      Live(*replicas, Replicas::kHoldsUpMax / 4);
      Answer::Ack ack = Holds(Lsn(20));
      ack.set_record_bytes(8);
      replicas->OnAck(kFollower, ack, segment);
    }
    EXPECT_FALSE(Wished().empty());
  }
}

TEST_F(ReplicasTest, TheLogIsNotKeptForOneWhoseLogWentAnotherWay) {
  const auto replicas = Tenure(Epoch(1), Lsn(20));
  replicas->OnAck(kFollower, Says(Answer::NO_STATE), segment);
  const std::string bytes(2 * Replicas::kKeptMax, 'v');
  Update update = MakeUpdate(SessionId(7), 1, {{5, 1.0f}});
  update.values = bytes;
  const Record large = update;
  replicas->Appended(AppliedRecord(large));
  EXPECT_EQ(replicas->tail().base().lsn, Lsn(21));
  EXPECT_EQ(replicas->committed(), Lsn()) << "but it is waited for";
}

TEST_F(ReplicasTest, TheLogIsNotKeptForALearnerWithoutContact) {
  for (const uint64_t link : {0, 1}) {
    port->link = link;
    const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
    replicas->Recruit(kFollower);
    replicas->OnTime(segment);
    const std::string bytes(2 * Replicas::kKeptMax, 'v');
    Update update = MakeUpdate(SessionId(7), 1, {{5, 1.0f}});
    update.values = bytes;
    const Record large = update;
    replicas->Appended(AppliedRecord(large));
    EXPECT_EQ(replicas->tail().base().lsn, Lsn(21));
  }
}

TEST_F(ReplicasTest, TheLogIsKeptFromAnImageOnWhileItIsUnderWay) {
  const auto replicas = Tenure(Epoch(1), Lsn(20), std::vector<ring::Member>{});
  while (segment.version() < Lsn(20)) segment.Apply(Advance{.job = JobId(1), .min_clock = 1});
  replicas->Recruit(kFollower);
  replicas->OnTime(segment);
  Append(*replicas);  // may still be needed by one that asks for it
  segment.Apply(Advance{.job = JobId(1), .min_clock = 1});
  replicas->OnAck(kFollower, Says(Answer::NO_STATE), segment);
  ASSERT_TRUE(port->heads.back().image_complete());
  const std::string bytes(2 * Replicas::kKeptMax, 'v');
  Update update = MakeUpdate(SessionId(7), 1, {{5, 1.0f}});
  update.values = bytes;
  const Record large = update;
  replicas->Appended(AppliedRecord(large));
  EXPECT_EQ(replicas->tail().base().lsn, Lsn(21)) << "what is in the image is not needed";
}

}  // namespace
}  // namespace paceline::log
