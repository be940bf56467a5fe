// Shards from which everything moves away.
#include "services/coordinator/metadata/placement/drains.h"

#include "services/coordinator/metadata/placement/map_plan.h"
#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DrainsTest : public ReplicatedTest {
 protected:
  absl::StatusOr<v1::DrainShardsReply> Drain(const std::vector<std::string>& names, bool cancel = false) {
    v1::DrainShardsRequest request;
    for (const std::string& name : names) request.add_shards(name);
    request.set_cancel(cancel);
    return cluster_->core().DrainShards(request);
  }
  v1::DrainShardsRequest Numbered(const std::string& name, uint64_t number, uint64_t nonce,
                                  bool cancel = false) {
    v1::DrainShardsRequest request;
    request.add_shards(name);
    request.set_cancel(cancel);
    request.set_number(number);
    request.set_nonce(nonce);
    return request;
  }
  uint64_t Taken() { return cluster_->core().Status().drains(); }
  // Time passes while shards do as they are asked.
  void Work(int seconds) {
    for (int i = 0; i < 4 * seconds; ++i) {
      Obey();
      cluster_->Run(absl::Milliseconds(250));
    }
  }
  std::optional<v1::ShardStatus> StatusOf(const std::string& name) {
    const v1::StatusReply status = cluster_->core().Status();
    for (const v1::ShardStatus& shard : status.shards()) {
      if (shard.info().name() == name) return shard;
    }
    return std::nullopt;
  }
  bool MayGo(const std::string& name) { return StatusOf(name)->drain().may_go(); }
  int Holds(const std::string& name) {
    const uint32_t id = shards().at(name).id;
    return static_cast<int>(SegmentsOf(Map(), id).size());
  }
};

TEST_F(DrainsTest, WithoutReplicasEverySegmentMovesByRecruitHandOverAndDrop) {
  Start(0);
  ASSERT_GT(Holds("shard-1"), 0);
  const auto reply = Drain({"shard-1"});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->shards(0).drain().segments_left(), static_cast<uint32_t>(Holds("shard-1")));
  EXPECT_FALSE(reply->shards(0).drain().may_go());
  const std::vector<Gauges::Shard> each = cluster_->core().gauges().each_shard;
  ASSERT_EQ(each.size(), 3u);
  for (const Gauges::Shard& shard : each) {
    EXPECT_TRUE(shard.alive) << shard.name;
    EXPECT_EQ(shard.draining, shard.name == "shard-1") << shard.name;
  }
  bool two = false;
  const auto watch = cluster_->core().WatchMap(0, [&](const auto& map) {
    for (const auto& config : map->segments()) two |= config.replicas_size() > 0;
  });
  ASSERT_THAT(watch, IsOk());
  Work(10);
  cluster_->core().Unwatch(*watch);
  EXPECT_TRUE(two) << "the copy is a replica until the segment is handed over";
  EXPECT_TRUE(MayGo("shard-1"));
  EXPECT_EQ(Holds("shard-1"), 0);
  EXPECT_EQ(Holds("shard-0") + Holds("shard-2"), 8);
  EXPECT_EQ(shards().at("shard-1").emptied, 1);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(DrainsTest, OneWithoutANumberTakesTheNext) {
  Start(0);
  const v1::DrainShardsRequest late = Numbered("shard-1", Taken() + 1, /*nonce=*/5, /*cancel=*/true);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  EXPECT_THAT(cluster_->core().DrainShards(late), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(StatusOf("shard-1")->has_drain());
}

// In each map that is committed a segment has as many living members as before.
TEST_F(DrainsTest, NoSegmentHasFewerCopiesMeanwhile) {
  Start(1, 4);
  int fewest = 8;
  const auto id = cluster_->core().WatchMap(0, [&](const auto& map) {
    for (const auto& config : map->segments()) fewest = std::min(fewest, config.replicas_size());
  });
  ASSERT_THAT(id, IsOk());
  ASSERT_THAT(Drain({"shard-1", "shard-3"}), IsOk());
  Work(40);
  EXPECT_EQ(fewest, 1);
  EXPECT_TRUE(MayGo("shard-1") && MayGo("shard-3"));
  EXPECT_EQ(Holds("shard-0"), 8);
  EXPECT_EQ(Holds("shard-2"), 8);
  EXPECT_EQ(cluster_->core().gauges().segments_under_replicated, 0u);
  cluster_->core().Unwatch(*id);
}

TEST_F(DrainsTest, AShardThatHasGoneIsForgottenAndItsNameComesBackAsAnother) {
  Start(0);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  Work(30);
  ASSERT_TRUE(MayGo("shard-1"));
  const uint32_t before = shards().at("shard-1").id;
  shards().at("shard-1").up = false;
  cluster_->Run(absl::Seconds(5));
  EXPECT_FALSE(StatusOf("shard-1").has_value());
  EXPECT_EQ(cluster_->core().gauges().shards, 2u);
  EXPECT_EQ(cluster_->core().gauges().shards_draining, 0u);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
  shards().at("shard-1").says.Clear();
  shards().at("shard-1").up = true;
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  EXPECT_NE(shards().at("shard-1").id, before);
  Work(30);
  EXPECT_GE(Holds("shard-1"), 2) << "it gets its share, as a new shard";
}

// A primary may still wait for it as a learner that somebody recruited before.
TEST_F(DrainsTest, NoConfigurationCountsOnAShardThatMayGo) {
  Start(0);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  Work(30);
  ASSERT_TRUE(MayGo("shard-1"));
  const v1::Member it = shards().at("shard-1").member();
  const auto wish = [&] {
    const v1::SegmentConfig config = Config(3);
    return Wish(config.primary(), {WishOf(v1::ConfigWish::ADD, 3, config.epoch(), {it})});
  };
  EXPECT_THAT(wish()->segments(0).why_not(), HasSubstr("has drained, and may go"));
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_THAT(wish()->segments(0).why_not(), HasSubstr("has drained, and may go"));
}

// A coordinator that has just begun knows nothing of the copy. The primary sends it until it may add the
// shard, and the shard keeps its folder as long as it is sent one.
TEST_F(DrainsTest, AShardThatIsSentACopyIsAddedAndDrainsAgain) {
  Start(0);
  shards().at("shard-1").keeps_folder = "shard-1 is a member of segment 3, or becomes one";
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  Work(30);
  EXPECT_FALSE(MayGo("shard-1"));
  EXPECT_THAT(cluster_->Problems(),
              ElementsAre(HasSubstr("shard-1 is a member of segment 3, or becomes one")));
  const v1::SegmentConfig config = Config(3);
  const auto added = Wish(
      config.primary(), {WishOf(v1::ConfigWish::ADD, 3, config.epoch(), {shards().at("shard-1").member()})});
  ASSERT_THAT(added, IsOk());
  EXPECT_EQ(added->segments(0).why_not(), "");
  EXPECT_EQ(added->segments(0).config().replicas_size(), 1);
  shards().at("shard-1").keeps_folder = "";
  Work(30);
  EXPECT_EQ(Holds("shard-1"), 0);
  EXPECT_TRUE(MayGo("shard-1"));
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(DrainsTest, AShardWhoseDrainIsCancelledTooLateIsGivenNothing) {
  Start(0);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  Work(30);
  ASSERT_TRUE(MayGo("shard-1"));
  ASSERT_THAT(Drain({"shard-1"}, /*cancel=*/true), IsOk());
  Work(30);
  EXPECT_EQ(Holds("shard-1"), 0);
  EXPECT_THAT(cluster_->Problems(), Contains(HasSubstr("or start it again")));
  const v1::SegmentConfig config = Config(3);
  const auto added = Wish(
      config.primary(), {WishOf(v1::ConfigWish::ADD, 3, config.epoch(), {shards().at("shard-1").member()})});
  EXPECT_NE(added->segments(0).why_not(), "") << "it would serve nothing";
}

TEST_F(DrainsTest, ACancelledDrainKeepsWhatHasMoved) {
  Start(0);
  const int before = Holds("shard-1");
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  cluster_->Run(absl::Milliseconds(500));
  Obey();  // the recruits
  cluster_->Run(absl::Milliseconds(500));
  Obey();  // hand-overs
  cluster_->Run(absl::Milliseconds(100));
  const uint32_t id = shards().at("shard-1").id;
  const auto primaries = [&] {
    return std::ranges::count_if(Configs(), [&](const auto& one) { return one.primary().shard() == id; });
  };
  EXPECT_LT(primaries(), before);
  const auto reply = Drain({"shard-1"}, /*cancel=*/true);
  ASSERT_THAT(reply, IsOk());
  EXPECT_FALSE(reply->shards(0).has_drain());
  Work(30);
  EXPECT_GE(Holds("shard-1"), 2) << "and then all is even again";
  for (const auto& config : Configs()) EXPECT_EQ(config.replicas_size(), 0);
  const uint64_t version = Map().version();
  Work(5);
  EXPECT_EQ(Map().version(), version);
}

TEST_F(DrainsTest, ItIsStored) {
  Start(0);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_TRUE(StatusOf("shard-1")->has_drain());
  Work(30);
  EXPECT_TRUE(MayGo("shard-1"));
}

TEST_F(DrainsTest, ADoubledDrainThatComesAfterItsCancellationChangesNothing) {
  Start(0);
  const v1::DrainShardsRequest drain = Numbered("shard-1", 1, 71);
  ASSERT_THAT(cluster_->core().DrainShards(drain), IsOk());
  EXPECT_TRUE(StatusOf("shard-1")->has_drain());
  ASSERT_THAT(cluster_->core().DrainShards(Numbered("shard-1", 2, 72, /*cancel=*/true)), IsOk());
  const auto again = cluster_->core().DrainShards(drain);
  ASSERT_THAT(again, IsOk()) << "it was taken: that is its answer";
  EXPECT_FALSE(again->shards(0).has_drain()) << "and this is how it stands";
  EXPECT_FALSE(StatusOf("shard-1")->has_drain());
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_THAT(cluster_->core().DrainShards(drain), IsOk());
  EXPECT_FALSE(StatusOf("shard-1")->has_drain()) << "the next coordinator knows as well";
  EXPECT_EQ(Taken(), 2u);
}

TEST_F(DrainsTest, ADrainThatComesForTheFirstTimeAfterALaterOneChangesNothing) {
  Start(0);
  // Nobody has seen the first one's answer, since it never arrived; and cancelling it changed nothing.
  ASSERT_THAT(cluster_->core().DrainShards(Numbered("shard-1", 1, 72, /*cancel=*/true)), IsOk());
  EXPECT_THAT(cluster_->core().DrainShards(Numbered("shard-1", 1, 71)),
              StatusIs(StatusCode::kAborted, AllOf(HasSubstr("request 1 "), HasSubstr("ask again"))));
  EXPECT_FALSE(StatusOf("shard-1")->has_drain());
  ASSERT_THAT(cluster_->core().DrainShards(Numbered("shard-1", Taken() + 1, 73)), IsOk());
  EXPECT_TRUE(StatusOf("shard-1")->has_drain());
  EXPECT_THAT(cluster_->core().DrainShards(Numbered("shard-1", 1, 74, /*cancel=*/true)),
              StatusIs(StatusCode::kAborted, HasSubstr("request 2 was taken")));
  EXPECT_TRUE(StatusOf("shard-1")->has_drain());
}

TEST_F(DrainsTest, ADrainThatComesAgainOnceItsShardHasGoneSaysSo) {
  Start(0);
  const v1::DrainShardsRequest drain = Numbered("shard-1", 1, 71);
  ASSERT_THAT(cluster_->core().DrainShards(drain), IsOk());
  Work(30);
  shards().at("shard-1").up = false;
  cluster_->Run(absl::Seconds(5));
  ASSERT_FALSE(StatusOf("shard-1").has_value());
  const auto again = cluster_->core().DrainShards(drain);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->shards(0).drain().may_go());
}

TEST_F(DrainsTest, WhatWasRefusedIsNotTaken) {
  Start(0);
  EXPECT_THAT(cluster_->core().DrainShards(Numbered("shard-9", 1, 71)),
              StatusIs(StatusCode::kNotFound, ::testing::_));
  EXPECT_EQ(Taken(), 0u);
  EXPECT_THAT(cluster_->core().DrainShards(Numbered("shard-1", UINT64_MAX, 72)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("StatusReply.drains + 1")));
  ASSERT_THAT(cluster_->core().DrainShards(Numbered("shard-1", 1, 71)), IsOk());
  EXPECT_EQ(Taken(), 1u);
}

TEST_F(DrainsTest, WhatTheRestCouldNotHoldIsRefusedWithTheNumbers) {
  Start(1);
  EXPECT_THAT(Drain({"shard-1", "shard-2"}),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("without shard-1, shard-2 there would be 1"), HasSubstr("needs 2"))));
  EXPECT_FALSE(StatusOf("shard-1")->has_drain());
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  EXPECT_THAT(Drain({"shard-2"}), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("needs 2")))
      << "all that drain are one set";
  ASSERT_THAT(Drain({"shard-1"}, /*cancel=*/true), IsOk());
  for (auto& [name, shard] : shards().all()) {
    shard.says.set_bytes(60);
    shard.says.set_bytes_budget(100);
  }
  cluster_->Run(absl::Seconds(2));
  ASSERT_THAT(Drain({"shard-1"}), IsOk()) << "the others have room for 80";
  ASSERT_THAT(Drain({"shard-1"}, /*cancel=*/true), IsOk());
  shards().at("shard-1").says.set_bytes(90);
  cluster_->Run(absl::Seconds(2));
  EXPECT_THAT(Drain({"shard-1"}),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("have to take 90 bytes"), HasSubstr("room for 80"))));
}

TEST_F(DrainsTest, AllShardsAreRefused) {
  Start(0);
  EXPECT_THAT(
      Drain({"shard-0", "shard-1", "shard-2"}),
      StatusIs(StatusCode::kFailedPrecondition, AllOf(HasSubstr("there would be 0"), HasSubstr("needs 1"))));
}

TEST_F(DrainsTest, AnUnknownShardIsRefusedAndNothingBegins) {
  Start(0);
  EXPECT_THAT(Drain({"shard-1", "shard-9"}), StatusIs(StatusCode::kNotFound, HasSubstr("'shard-9'")));
  EXPECT_FALSE(StatusOf("shard-1")->has_drain());
  EXPECT_THAT(Drain({}), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(DrainsTest, OneThatDrainsAlreadyChangesNothing) {
  Start(0);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  const int commits = cluster_->store().commits();
  const auto again = Drain({"shard-1", "shard-1"});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->shards(1).has_drain());
  EXPECT_EQ(cluster_->store().commits(), commits);
  EXPECT_THAT(Drain({"shard-2"}, /*cancel=*/true), IsOk()) << "nor does ending what has not begun";
}

// With replicas the others have its segments: it may go when these are complete without it.
TEST_F(DrainsTest, ADeadShardWithReplicasMayGoOnceOthersHaveItsCopies) {
  Start(1, 4);
  shards().at("shard-1").up = false;
  cluster_->Run(absl::Seconds(5));
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  const v1::Member dead = shards().at("shard-1").member();
  for (auto& [name, shard] : shards().all()) {
    if (shard.up) (void)Wish(shard.member(), WishesToReplace(dead, shard));
  }
  for (int i = 0; i < 60 && StatusOf("shard-1").has_value(); ++i) {
    DropDead();
    Work(1);
  }
  EXPECT_FALSE(StatusOf("shard-1").has_value());
  EXPECT_EQ(cluster_->core().gauges().segments_under_replicated, 0u);
}

TEST_F(DrainsTest, ADeadShardWithoutReplicasIsWaitedForByName) {
  Start(0);
  shards().at("shard-1").up = false;
  cluster_->Run(absl::Seconds(5));
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  Work(5);
  EXPECT_THAT(cluster_->Problems(), Contains(AllOf(HasSubstr("shard-1 drains and waits"), HasSubstr("silent"),
                                                   HasSubstr("start it again, or see `paceline recover`"))));
  EXPECT_FALSE(MayGo("shard-1"));
}

TEST_F(DrainsTest, ALostShardIsWaitedForUntilTheLossIsAccepted) {
  Start(0);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  ASSERT_THAT(shards().Beat(cluster_->core(), "shard-1"), IsOk());
  cluster_->Run(absl::Seconds(1));
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  EXPECT_THAT(cluster_->Problems(), Contains(AllOf(HasSubstr("shard-1 drains and waits"), HasSubstr("lost"),
                                                   HasSubstr("recover --accept-loss shard-1"))));
  ASSERT_THAT(cluster_->AcceptLosses(), IsOk());
  Work(40);
  EXPECT_TRUE(MayGo("shard-1"));
}

TEST_F(DrainsTest, ARestartMeanwhileDoesNotEndIt) {
  Start(1, 4);
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  ASSERT_THAT(shards().Beat(cluster_->core(), "shard-1"), IsOk());
  for (int i = 0; i < 60 && !MayGo("shard-1"); ++i) {
    DropDead();
    Work(1);
  }
  EXPECT_TRUE(MayGo("shard-1"));
  EXPECT_EQ(Holds("shard-1"), 0);
}

TEST_F(DrainsTest, WhatMovesIsShownWithWhatIsLeft) {
  Start(0, 2, 5);
  for (auto& [name, shard] : shards().all()) shard.says.set_bytes(1600);
  for (auto& [name, shard] : shards().all()) shard.says.set_bytes_budget(1 << 20);
  cluster_->Run(absl::Seconds(2));
  EXPECT_FALSE(cluster_->core().Status().has_moves());
  ASSERT_THAT(Drain({"shard-1"}), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  const v1::MoveStatus moves = cluster_->core().Status().moves();
  EXPECT_EQ(moves.copies(), 8u);
  EXPECT_EQ(moves.copies_left(), 8u);
  EXPECT_EQ(moves.bytes_left(), 1600u);
  v1::LearnerProgress& progress = *shards().at("shard-1").says.add_learners();
  const uint32_t segment = shards().at("shard-1").recruits.at(0).segments(0).segment();
  progress.set_segment(segment);
  *progress.mutable_learner() = shards().at("shard-0").member();
  progress.set_bytes_moved(70);
  progress.set_bytes_left(30);
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(cluster_->core().Status().moves().bytes_left(), 1530u);
}

// A learner is given up a minute after its last byte, not after a time that a large segment exceeds.
TEST_F(DrainsTest, PatienceIsByBytesMoved) {
  Start(0, 3, 2);
  const std::string from = NameOf(Config(0).primary());
  ASSERT_THAT(Drain({from}), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  const auto learner = [&] {  // of segment 0, as it was asked for last
    v1::Member last;
    for (const auto& request : shards().at(from).recruits) {
      for (const auto& segment : request.segments()) {
        if (segment.segment() == 0) last = segment.learner();
      }
    }
    return last;
  };
  const v1::Member first = learner();
  ASSERT_NE(first.incarnation(), 0u);
  v1::LearnerProgress& progress = *shards().at(from).says.add_learners();
  *progress.mutable_learner() = first;
  for (int i = 0; i < 10; ++i) {
    progress.set_bytes_moved(progress.bytes_moved() + 1);
    cluster_->Run(absl::Seconds(30));
  }
  EXPECT_TRUE(Same(learner(), first));
  cluster_->Run(absl::Seconds(65));
  EXPECT_FALSE(Same(learner(), first));
}

// -- planned drops --

TEST_F(DrainsTest, APlannedDropLeavesAsManyReplicasAsAreWanted) {
  const auto member = [](uint32_t shard) {
    v1::Member one;
    one.set_shard(shard);
    return one;
  };
  v1::SegmentConfig config;
  config.set_epoch(4);
  *config.mutable_primary() = member(0);
  *config.add_replicas() = member(1);
  const auto all = [](const v1::Member&) { return true; };
  const MemberFacts live{.current = all, .alive = all};
  EXPECT_THAT(DropAsPlanned(config, member(0), 0, live), Not(IsOk())) << "the primary hands over first";
  EXPECT_THAT(DropAsPlanned(config, member(2), 0, live), Not(IsOk()));
  EXPECT_THAT(DropAsPlanned(config, member(1), 1, live), Not(IsOk()));
  *config.add_replicas() = member(2);
  const MemberFacts dead{.current = all, .alive = [](const v1::Member& one) { return one.shard() != 2; }};
  EXPECT_THAT(DropAsPlanned(config, member(1), 1, dead), Not(IsOk()));
  EXPECT_EQ(config.epoch(), 4u);
  EXPECT_THAT(DropAsPlanned(config, member(1), 1, live), IsOk());
  EXPECT_EQ(config.epoch(), 5u);
  EXPECT_THAT(Shards(config), ::testing::ElementsAre(2));
  EXPECT_THAT(DropAsPlanned(config, member(2), 0, live), IsOk());
}

}  // namespace
}  // namespace paceline::coordinator
