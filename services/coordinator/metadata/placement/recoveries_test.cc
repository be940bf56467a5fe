// Segments whose members have all been started again, and their disks.
#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RecoveriesTest : public ReplicatedTest {
 protected:
  // All segments are on every shard's disk up to this.
  void StartWithDisks(uint32_t replicas, std::pair<uint64_t, uint64_t> log = {1, 10}) {
    Start(replicas);
    for (const auto& [name, shard] : shards().all()) {
      for (uint32_t s = 0; s < 8; ++s) shards().disks[name][s] = log;
    }
  }
  void StartAgain(const v1::Member& member) {
    ASSERT_THAT(shards().Join(cluster_->core(), NameOf(member)), IsOk());
  }
};

TEST_F(RecoveriesTest, ARestartedShardContinuesFromItsDisk) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  StartAgain(before.primary());
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u);
  EXPECT_THAT(cluster_->Problems(), Contains(HasSubstr("being recovered from disk")));
  cluster_->Run(absl::Milliseconds(300));
  EXPECT_EQ(Config(3).epoch(), before.epoch() + 1);
  EXPECT_TRUE(Same(Config(3).primary(), ShardOf(before.primary()).member())) << "the new start";
  EXPECT_TRUE(ShardOf(before.primary()).IsPrimaryOf(3)) << "it was told";
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
  EXPECT_NE(cluster_->Opened("ctr"), 0u);
  for (const v1::FenceRequest& fence : ShardOf(before.primary()).fences) {
    for (const auto& segment : fence.segments()) EXPECT_TRUE(segment.restored());
  }
}

TEST_F(RecoveriesTest, AllMembersAreAwaitedAndTheMostAdvancedGoesOn) {
  for (const bool by_epoch : {false, true}) {
    StartWithDisks(1);
    const v1::SegmentConfig before = Config(3);
    shards().disks[NameOf(before.primary())][3] = {1, 50};
    shards().disks[NameOf(before.replicas(0))][3] = by_epoch ? std::pair(2, 40) : std::pair(1, 51);
    // The replica does not answer at first.
    const std::string slow = NameOf(before.replicas(0));
    shards().hold = [&](const std::string& call, const std::string& shard) {
      return call == "Fence" && shard == slow;
    };
    StartAgain(before.primary());
    StartAgain(before.replicas(0));
    cluster_->Run(absl::Seconds(1));
    EXPECT_EQ(Config(3).epoch(), 1u) << "it may have more";
    shards().hold = [](auto&, auto&) { return false; };
    shards().LetGo();
    cluster_->Run(absl::Seconds(1));
    EXPECT_EQ(Config(3).epoch(), 2u);
    EXPECT_EQ(NameOf(Config(3).primary()), slow);
    EXPECT_TRUE(Same(Config(3).primary(), ShardOf(before.replicas(0)).member()));
    EXPECT_THAT(Config(3).replicas(), IsEmpty());
  }
}

TEST_F(RecoveriesTest, ARunningMemberIsNotReplacedByADisk) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  ShardOf(before.replicas(0)).up = false;  // its memory may be all there is of the newest records
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(5));
  EXPECT_EQ(Config(3).epoch(), 1u);
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u);
}

TEST_F(RecoveriesTest, AStartThatEndsBeforeTheCommitIsAskedAnew) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  StartAgain(before.primary());
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Milliseconds(100));
  StartAgain(before.primary());
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), ShardOf(Config(3).primary()).member())) << "a start that lives";
}

TEST_F(RecoveriesTest, WithoutAnythingOnADiskItIsLost) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  shards().disks[NameOf(before.primary())].clear();
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 1u);
  EXPECT_GE(cluster_->core().gauges().segments_lost, 1u);
  EXPECT_THAT(cluster_->OpenSession("ctr", 7).status(), StatusIs(StatusCode::kDataLoss));
  // Started once more, with the folder that it ought to have had.
  for (uint32_t s = 0; s < 8; ++s) shards().disks[NameOf(before.primary())][s] = {1, 10};
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u);
}

TEST_F(RecoveriesTest, TheMapMarksSegmentsThatLostAllReplicas) {
  Start(1);  // without disks
  const v1::SegmentConfig before = Config(3);
  ShardOf(before.replicas(0)).up = false;
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(1));
  EXPECT_FALSE(Config(3).lost()) << "its replica may come back";
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Seconds(1));
  EXPECT_TRUE(Config(3).lost());
  EXPECT_TRUE(ShardOf(before.primary()).map.segments(3).lost()) << "it was told";
  StartAgain(before.primary());
  EXPECT_TRUE(Config(3).lost()) << "there is no disk to ask";
}

TEST_F(RecoveriesTest, ASegmentOnNoDiskIsLostForTheNextCoordinatorToo) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  for (auto& [name, disk] : shards().disks) disk.clear();
  for (const v1::Member& member : {before.primary(), before.replicas(0)}) ShardOf(member).up = false;
  StartAgain(before.primary());
  StartAgain(before.replicas(0));
  EXPECT_FALSE(Config(3).lost()) << "the disks have yet to be asked";
  cluster_->Run(absl::Seconds(1));
  EXPECT_TRUE(Config(3).lost());
  EXPECT_EQ(Config(3).epoch(), before.epoch());
  EXPECT_TRUE(ShardOf(before.primary()).map.segments(3).lost()) << "it was told";
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(4));
  EXPECT_GE(cluster_->core().gauges().segments_lost, 1u);
  EXPECT_TRUE(Config(3).lost());
}

TEST_F(RecoveriesTest, TheNextCoordinatorContinues) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  shards().drop_calls = [] { return true; };
  StartAgain(before.primary());
  ASSERT_THAT(cluster_->Restart(), IsOk());
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u) << "that there is a disk is in the store";
  shards().drop_calls = [] { return false; };
  cluster_->Run(absl::Seconds(4));
  EXPECT_EQ(Config(3).epoch(), 2u);
}

TEST_F(RecoveriesTest, AllSegmentsRecoverAtOnce) {
  StartWithDisks(2);
  for (const auto& name : {"shard-0", "shard-1", "shard-2"}) {
    ASSERT_THAT(shards().Join(cluster_->core(), name), IsOk());
  }
  cluster_->Run(absl::Seconds(1));
  for (const v1::SegmentConfig& config : Configs()) {
    EXPECT_EQ(config.epoch(), 2u);
    EXPECT_TRUE(Same(config.primary(), ShardOf(config.primary()).member()));
  }
  EXPECT_THAT(shards().at("shard-0").fences, SizeIs(1)) << "one call for all its segments";
}

// -- losses that are accepted --

class LossesTest : public RecoveriesTest {
 protected:
  v1::RecoverSegmentsReply Recover(const v1::RecoverSegmentsRequest& request = {}) {
    auto reply = cluster_->core().RecoverSegments(request);
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *std::move(reply) : v1::RecoverSegmentsReply();
  }
  // All that is waiting.
  v1::RecoverSegmentsReply Accept() {
    auto reply = cluster_->AcceptLosses();
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *std::move(reply) : v1::RecoverSegmentsReply();
  }
  std::optional<v1::RecoverSegmentsReply::Segment> Waiting(uint32_t segment) {
    const v1::RecoverSegmentsReply found = Recover();
    for (const auto& one : found.waiting()) {
      if (one.segment() == segment) return one;
    }
    return std::nullopt;
  }
  void End(const v1::Member& member) {
    ShardOf(member).up = false;
    cluster_->Run(absl::Seconds(4));
  }
};

TEST_F(LossesTest, AwaitedShardsAreNamedAndTheOthersGoOnOnceTheLossIsAccepted) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  EXPECT_THAT(Recover().waiting(), IsEmpty());
  shards().disks[NameOf(before.primary())][3] = {1, 50};
  ShardOf(before.primary()).up = false;
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Seconds(4));
  const auto waiting = Waiting(3);
  ASSERT_TRUE(waiting);
  EXPECT_THAT(waiting->awaited(), ElementsAre(NameOf(before.primary())));
  EXPECT_THAT(waiting->restarted(), ElementsAre(NameOf(before.replicas(0))));
  EXPECT_FALSE(waiting->accepted());
  cluster_->Run(absl::Seconds(4));
  EXPECT_EQ(Config(3).epoch(), 1u) << "nobody has accepted it";
  EXPECT_TRUE(ShardOf(before.replicas(0)).fences.empty()) << "nor is anybody asked";
  Accept();
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), ShardOf(before.replicas(0)).member()));
  EXPECT_EQ(Config(3).emptied_in(), 0u) << "its disk has something";
  EXPECT_FALSE(Waiting(3));
  EXPECT_THAT(cluster_->KeepAlive(1), IsOk()) << "whose parts are there goes on";
}

TEST_F(LossesTest, AMemberThatLivesTakesOverAndNothingIsAccepted) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  End(before.primary());
  EXPECT_FALSE(Waiting(3));
  v1::RecoverSegmentsRequest request;
  request.add_accept_loss()->set_segment(3);
  request.mutable_accept_loss(0)->set_epoch(1);
  request.add_accept_loss()->set_segment(99);
  Recover(request);
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(Config(3).epoch(), 1u);
}

TEST_F(LossesTest, WithoutMembersItBeginsEmptyAndSessionsEnd) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  End(before.primary());
  const auto waiting = Waiting(3);
  ASSERT_TRUE(waiting);
  EXPECT_THAT(waiting->restarted(), IsEmpty());
  const auto pending = cluster_->OpenSession("ctr", 5);
  Accept();
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_EQ(Config(3).emptied_in(), 2u);
  EXPECT_NE(Config(3).primary().shard(), before.primary().shard());
  EXPECT_FALSE(Waiting(3));
  EXPECT_THAT(cluster_->KeepAlive(1),
              StatusIs(StatusCode::kDataLoss, HasSubstr("is gone, which was accepted")));
  EXPECT_THAT(pending.status(), StatusIs(StatusCode::kDataLoss)) << "it was open in some segments";
  EXPECT_NE(cluster_->Opened("ctr"), 0u);
}

// A shard that has drained serves nothing, though it lives and is the least busy of all.
TEST_F(LossesTest, ASegmentIsNotGivenToAShardThatHasGivenUpItsFolder) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  std::string other;
  for (auto& [name, shard] : shards().all()) {
    if (name == NameOf(before.primary())) continue;
    shard.says.set_emptied(true);
    other = name;
  }
  cluster_->Run(absl::Seconds(2));
  End(before.primary());
  Accept();
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(Config(3).epoch(), 1u) << "there is nobody to give it to";
  shards().at(other).says.set_emptied(false);  // as after another start
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), shards().at(other).member()));
}

TEST_F(LossesTest, ASegmentOnNoDiskBeginsEmptyToo) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  shards().disks[NameOf(before.primary())].clear();
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(1));
  const auto waiting = Waiting(3);
  ASSERT_TRUE(waiting);
  EXPECT_TRUE(waiting->nothing_found());
  EXPECT_THAT(waiting->awaited(), IsEmpty());
  Accept();
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).emptied_in(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), ShardOf(before.primary()).member()));
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u);
  EXPECT_NE(cluster_->Opened("ctr"), 0u);
}

// Its machine lost power before it had written down that the segment began empty.
TEST_F(LossesTest, DataThatWasGivenUpDoesNotComeBackFromADisk) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  const std::string name = NameOf(before.primary());
  auto disk = std::exchange(shards().disks[name], {});
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(1));
  Accept();
  cluster_->Run(absl::Seconds(1));
  ASSERT_EQ(Config(3).emptied_in(), 2u);
  shards().disks[name] = disk;
  StartAgain(Config(3).primary());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u) << "it went on from what was given up";
  EXPECT_GE(cluster_->core().gauges().segments_lost, 1u);
  for (auto& [segment, log] : shards().disks[name]) log = {2, 1};
  StartAgain(Config(3).primary());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 3u);
}

TEST_F(LossesTest, ACopyOfAnEarlierConfigurationGoesBeforeAnEmptyBeginning) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  std::string keeper;
  for (auto& [name, shard] : shards().all()) {
    if (name != NameOf(before.primary())) keeper = name;
  }
  shards().at(keeper).left_over[3] = {1, 95};
  End(before.primary());
  Accept();
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(NameOf(Config(3).primary()), keeper);
  EXPECT_EQ(Config(3).emptied_in(), 0u);
  EXPECT_THAT(cluster_->KeepAlive(1), StatusIs(StatusCode::kDataLoss)) << "it may know less than it was told";
  EXPECT_THAT(cluster_->core().Status().jobs(0).data_lost(),
              HasSubstr("segments 3 went on from the remains of an earlier configuration"));
}

TEST_F(LossesTest, AShardThatEndsWhileItIsAskedIsNotWaitedFor) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  End(before.primary());
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  Accept();
  const std::string survivor = NameOf(before.primary()) == "shard-0" ? "shard-1" : "shard-0";
  for (auto& [name, shard] : shards().all()) {
    if (name != survivor) shard.up = false;
  }
  shards().hold = [](auto&, auto&) { return false; };
  cluster_->Run(absl::Seconds(5));
  EXPECT_EQ(Config(3).emptied_in(), 2u);
}

TEST_F(LossesTest, TheJobsAreMarkedForGood) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  End(before.primary());
  EXPECT_EQ(cluster_->core().Status().jobs(0).data_lost(), "");
  Accept();
  cluster_->Run(absl::Seconds(1));
  ASSERT_EQ(Config(3).emptied_in(), 2u);
  const std::string lost = cluster_->core().Status().jobs(0).data_lost();
  EXPECT_THAT(lost, HasSubstr("acknowledged updates may be missing: segments"));
  EXPECT_THAT(lost, HasSubstr("began empty"));
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(20));  // it waits a while for the shard that has ended
  EXPECT_EQ(cluster_->core().Status().jobs(0).data_lost(), lost);
  const auto opened = cluster_->OpenSession("ctr", 99);
  cluster_->Await(opened);
  ASSERT_THAT(opened.status(), IsOk());
  EXPECT_EQ(opened->data_lost(), lost);
  EXPECT_NE(cluster_->Opened("new"), 0u);
  const v1::StatusReply status = cluster_->core().Status();
  for (const v1::JobStatus& job : status.jobs()) {
    EXPECT_EQ(job.data_lost(), job.name() == "new" ? "" : lost) << "what begins later lacks nothing";
  }
}

TEST_F(LossesTest, TheJobsAreMarkedWhereAnOlderDiskGoesOn) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  ShardOf(before.primary()).up = false;
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Seconds(4));
  Accept();
  cluster_->Run(absl::Seconds(1));
  ASSERT_EQ(Config(3).epoch(), 2u);
  EXPECT_THAT(cluster_->core().Status().jobs(0).data_lost(),
              HasSubstr("went on without shards that were given up"));
}

TEST_F(LossesTest, AJobIsNotMarkedWhereNothingWasGivenUp) {
  StartWithDisks(1);
  for (const auto& name : {"shard-0", "shard-1", "shard-2"}) {
    ASSERT_THAT(shards().Join(cluster_->core(), name), IsOk());
  }
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_EQ(cluster_->core().Status().jobs(0).data_lost(), "");
}

TEST_F(LossesTest, AcceptedAreTheStartsThatWereNamed) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  End(before.primary());
  const auto waiting = Waiting(3);
  ASSERT_TRUE(waiting);
  EXPECT_THAT(waiting->awaited_incarnations(), ElementsAre(before.primary().incarnation()));
  v1::RecoverSegmentsRequest request;
  request.add_accept_loss()->set_segment(3);
  request.mutable_accept_loss(0)->set_epoch(1);
  request.mutable_accept_loss(0)->add_given_up(before.primary().incarnation() + 100);
  Recover(request);
  EXPECT_FALSE(Waiting(3)->accepted()) << "another start was meant";
  request.mutable_accept_loss(0)->set_given_up(0, before.primary().incarnation());
  Recover(request);
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(Config(3).epoch(), 2u);
}

TEST_F(LossesTest, AShardThatFallsSilentLaterIsNotGivenUp) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  shards().disks[NameOf(before.replicas(0))][3] = {1, 50};
  ShardOf(before.primary()).up = false;
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Seconds(4));
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  Accept();
  End(before.replicas(0));
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Seconds(4));
  EXPECT_EQ(Config(3).epoch(), 1u) << "it is awaited: its disk has something";
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Seconds(2));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_EQ(Config(3).emptied_in(), 0u);
  EXPECT_TRUE(Same(Config(3).primary(), ShardOf(before.replicas(0)).member()));
}

TEST_F(LossesTest, AShardThatReturnsBeforeTheCommitIsAskedToo) {
  StartWithDisks(1);
  const v1::SegmentConfig before = Config(3);
  shards().disks[NameOf(before.primary())][3] = {1, 50};
  ShardOf(before.primary()).up = false;
  StartAgain(before.replicas(0));
  cluster_->Run(absl::Seconds(4));
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  EXPECT_TRUE(Accept().waiting(0).accepted());
  cluster_->Run(absl::Milliseconds(300));
  StartAgain(before.primary());
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), ShardOf(before.primary()).member())) << "it has more";
}

TEST_F(LossesTest, ALossOfAnEarlierEpochIsNotThatOfThisOne) {
  StartWithDisks(0);
  const v1::SegmentConfig before = Config(3);
  StartAgain(before.primary());
  cluster_->Run(absl::Seconds(1));
  ASSERT_EQ(Config(3).epoch(), 2u);
  End(Config(3).primary());
  v1::RecoverSegmentsRequest request;
  request.add_accept_loss()->set_segment(3);
  request.mutable_accept_loss(0)->set_epoch(1);
  Recover(request);
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Waiting(3));
}

}  // namespace
}  // namespace paceline::coordinator
