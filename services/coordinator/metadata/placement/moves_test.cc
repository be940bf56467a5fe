// Replicas that are recruited, primaries that are spread, and all that a shard hands over.
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

class MovesTest : public ReplicatedTest {
 protected:
  Pending<v1::HandOverShardReply> HandOver(const std::string& shard, uint32_t timeout_ms = 0) {
    v1::HandOverShardRequest request;
    request.set_shard(shard);
    request.set_timeout_ms(timeout_ms);
    Pending<v1::HandOverShardReply> pending;
    pending.ticket = cluster_->core().HandOverShard(request, absl::InfiniteFuture(), pending.done());
    return pending;
  }
  Pending<v1::HandOverShardReply> Leave(const std::string& shard, uint64_t incarnation) {
    v1::HandOverShardRequest request;
    request.set_shard(shard);
    request.set_leave(true);
    request.set_incarnation(incarnation);
    Pending<v1::HandOverShardReply> pending;
    pending.ticket = cluster_->core().HandOverShard(request, absl::InfiniteFuture(), pending.done());
    return pending;
  }
  std::map<uint32_t, int> Primaries() {
    std::map<uint32_t, int> count;
    for (const auto& config : Configs()) count[config.primary().shard()] += 1;
    return count;
  }
  int Replicas() {
    int count = 0;
    for (const auto& config : Configs()) count += config.replicas_size();
    return count;
  }
};

TEST_F(MovesTest, AShardWhoseDiskFailsIsGivenNothingUntilItWorks) {
  Start(1, 4);
  v1::BeatRequest& says = shards().at("shard-1").says;
  says.set_durable(true);
  says.mutable_disk()->set_state(v1::DiskHealth::FULL);
  says.mutable_disk()->set_why("no space left on device");
  says.mutable_disk()->set_for_ms(2000);
  says.add_not_serving("segments 1, 2: read-only, as the disk fails");
  cluster_->Run(absl::Seconds(2));
  EXPECT_THAT(cluster_->Problems(), Contains(AllOf(HasSubstr("the disk of shard-1"), HasSubstr("full"),
                                                   HasSubstr("no space left"))));
  EXPECT_THAT(cluster_->Problems(),
              Contains(AllOf(HasSubstr("shard-1"), HasSubstr("does not serve segments 1, 2: read-only"))));
  // It hands over and is asked out, as shards do by themselves.
  const uint32_t id = shards().at("shard-1").id;
  for (uint32_t s = 0; s < 8; ++s) {
    if (Config(s).primary().shard() == id) Ask("shard-1", v1::ConfigWish::SWAP, s, Config(s).replicas(0));
    const v1::SegmentConfig config = Config(s);
    if (HasReplica(config, shards().at("shard-1").member()))
      Ask(NameOf(config.primary()), v1::ConfigWish::DROP, s, shards().at("shard-1").member());
  }
  for (int i = 0; i < 20; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_EQ(cluster_->core().gauges().segments_under_replicated, 0u) << "others are";
  for (const auto& config : Configs()) {
    EXPECT_NE(config.primary().shard(), id);
    EXPECT_NE(config.replicas(0).shard(), id);
  }
  says.Clear();
  for (int i = 0; i < 40; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_GT(Primaries()[id], 0);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(MovesTest, ARecruitEndsWhenTheDiskOfTheLearnerFails) {
  Start(1);
  const v1::Member primary = Config(3).primary();
  const v1::Member dropped = Config(3).replicas(0);
  Ask(NameOf(primary), v1::ConfigWish::DROP, 3, dropped);
  cluster_->Run(absl::Milliseconds(500));
  const auto recruits = [&] { return std::exchange(ShardOf(primary).recruits, {}); };
  const auto before = recruits();
  ASSERT_FALSE(before.empty());
  const v1::Member learner = before.back().segments(0).learner();
  v1::BeatRequest& says = ShardOf(learner).says;
  says.set_durable(true);
  says.mutable_disk()->set_state(v1::DiskHealth::FAILS);
  cluster_->Run(absl::Seconds(3));
  const auto after = recruits();
  ASSERT_FALSE(after.empty());
  EXPECT_NE(after.back().segments(0).learner().shard(), learner.shard()) << "it would never count";
}

TEST_F(MovesTest, ARestartedShardGetsItsShareBack) {
  Start(1);
  const auto before = Primaries();
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  ASSERT_THAT(shards().Beat(cluster_->core(), "shard-1"), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  EXPECT_EQ(Primaries().count(shards().at("shard-1").id), 0u) << "its segments were taken over";
  EXPECT_GT(cluster_->core().gauges().segments_under_replicated, 0u);
  EXPECT_THAT(cluster_->Problems(),
              Contains(HasSubstr("have fewer than the 1 replicas wanted: they are being copied")));
  for (int i = 0; i < 40; ++i) {
    DropDead();
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_EQ(cluster_->core().gauges().segments_under_replicated, 0u);
  EXPECT_EQ(Replicas(), 8);
  for (const auto& [shard, count] : Primaries()) EXPECT_THAT(count, ::testing::AnyOf(2, 3)) << shard;
  EXPECT_EQ(Primaries().size(), 3u);
  EXPECT_GT(cluster_->core().gauges().handovers, 0u);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
  const uint64_t version = Map().version();
  cluster_->Run(absl::Seconds(5));
  EXPECT_EQ(Map().version(), version) << "and then there is rest";
}

TEST_F(MovesTest, AShardThatJoinsLateGetsWork) {
  Start(1);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-3"), IsOk());
  for (int i = 0; i < 60; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_EQ(Replicas(), 8);
  EXPECT_EQ(Primaries().size(), 4u);
  for (const auto& [shard, count] : Primaries()) EXPECT_EQ(count, 2) << shard;
}

TEST_F(MovesTest, ARecruitIsAskedForUntilTheMapShowsIt) {
  Start(1, 2);
  const v1::SegmentConfig config = Config(3);
  ASSERT_THAT(Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})}), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  FakeShard& primary = ShardOf(config.primary());
  ASSERT_EQ(primary.recruits.size(), 1u);
  EXPECT_EQ(primary.recruits[0].segments(0).segment(), 3u);
  EXPECT_EQ(primary.recruits[0].segments(0).epoch(), 2u);
  EXPECT_TRUE(Same(primary.recruits[0].segments(0).learner(), config.replicas(0)));
  EXPECT_EQ(cluster_->core().Status().shards(static_cast<int>(config.replicas(0).shard())).learners(), 1u);
  cluster_->Run(absl::Milliseconds(2500));
  EXPECT_EQ(primary.recruits.size(), 3u);
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  EXPECT_EQ(primary.recruits.size(), 4u) << "whoever leads next plans anew";
  Obey();
  EXPECT_EQ(Config(3).replicas_size(), 1);
  cluster_->Run(absl::Seconds(3));
  EXPECT_THAT(primary.recruits, IsEmpty());
}

TEST_F(MovesTest, TooFewShardsAreNamedAsAProblem) {
  Start(2, 2);
  EXPECT_EQ(cluster_->core().gauges().segments_under_replicated, 8u);
  EXPECT_THAT(cluster_->Problems(),
              Contains(AllOf(HasSubstr("segments 0-7"), HasSubstr("3 shards are needed and 2 live"))));
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-2"), IsOk());
  for (int i = 0; i < 40; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_EQ(Replicas(), 16);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(MovesTest, StatusShowsTheRoles) {
  Start(2);
  const v1::StatusReply status = cluster_->core().Status();
  EXPECT_EQ(status.replicas_wanted(), 2u);
  EXPECT_EQ(status.segments_under_replicated(), 0u);
  uint32_t primaries = 0;
  uint32_t replicas = 0;
  for (const auto& shard : status.shards()) primaries += shard.primaries(), replicas += shard.replicas();
  EXPECT_EQ(primaries, 8u);
  EXPECT_EQ(replicas, 16u);
}

// -- hand-overs --

TEST_F(MovesTest, AllPrimariesOfAShardAreHandedOver) {
  Start(1, 3, 6);
  const uint32_t id = shards().at("shard-1").id;
  const int its = Primaries()[id];
  const auto pending = HandOver("shard-1");
  for (int i = 0; i < 10 && !pending.answered(); ++i) {
    EXPECT_FALSE(pending.answered());
    Obey();
    cluster_->Run(absl::Milliseconds(100));
  }
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_EQ(pending->handed_over(), static_cast<uint32_t>(its));
  EXPECT_THAT(pending->kept(), IsEmpty());
  EXPECT_EQ(Primaries().count(id), 0u);
  for (const auto& [shard, count] : Primaries())
    EXPECT_THAT(count, ::testing::AllOf(::testing::Ge(31), ::testing::Le(33)));
  EXPECT_EQ(Replicas(), 64) << "it is their replica now";
  EXPECT_GE(cluster_->core().gauges().handovers, static_cast<uint64_t>(its));
  // It is not given anything back, until it was started again.
  for (int i = 0; i < 10; ++i) {
    Obey();
    cluster_->Run(absl::Seconds(1));
  }
  EXPECT_EQ(Primaries().count(id), 0u);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  for (int i = 0; i < 100; ++i) {
    DropDead();
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_GE(Primaries()[id], 20);
  EXPECT_EQ(cluster_->core().gauges().takeovers, 0u);
}

TEST_F(MovesTest, AShardThatLeavesIsInNoConfigurationAfterwards) {
  Start(1, 3, 6);
  const v1::Member member = shards().at("shard-1").member();
  const auto in_configurations = [&] {
    return std::ranges::count_if(Configs(), [&](const v1::SegmentConfig& config) {
      return Same(config.primary(), member) || HasReplica(config, member);
    });
  };
  const auto replicas_before = std::ranges::count_if(
      Configs(), [&](const v1::SegmentConfig& config) { return HasReplica(config, member); });
  const int primaries_before = Primaries()[member.shard()];
  const auto pending = Leave("shard-1", member.incarnation());
  for (int i = 0; i < 10 && !pending.answered(); ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(100));
  }
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_EQ(pending->handed_over(), static_cast<uint32_t>(primaries_before));
  EXPECT_EQ(pending->let_go(), static_cast<uint32_t>(replicas_before + primaries_before))
      << "it is a replica of what it has handed over";
  EXPECT_EQ(in_configurations(), 0);
  for (int i = 0; i < 20; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  EXPECT_EQ(in_configurations(), 0) << "nor is it recruited again";
  EXPECT_EQ(Replicas(), 64) << "others are, in its place";
}

// Both members of a segment are told to end: it is copied to a third shard before they go.
TEST_F(MovesTest, TwoThatLeaveAtOnceLeaveNoSegmentWithoutAMember) {
  Start(1, 3, 6);
  const v1::Member first = shards().at("shard-0").member();
  const v1::Member second = shards().at("shard-1").member();
  const v1::Member stays = shards().at("shard-2").member();
  const auto one = Leave("shard-0", first.incarnation());
  const auto two = Leave("shard-1", second.incarnation());
  for (int i = 0; i < 100 && !(one.answered() && two.answered()); ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(100));
  }
  ASSERT_THAT(one.status(), IsOk());
  ASSERT_THAT(two.status(), IsOk());
  EXPECT_THAT(one->kept(), IsEmpty());
  EXPECT_THAT(two->kept(), IsEmpty());
  for (const v1::SegmentConfig& config : Configs()) {
    EXPECT_TRUE(Same(config.primary(), stays)) << config.ShortDebugString();
    EXPECT_THAT(config.replicas(), IsEmpty());
  }
}

// The primary has died after its last beat, and the coordinator does not know yet: the only copy that lives
// does not go.
TEST_F(MovesTest, AReplicaOfADeadPrimaryTakesOverBeforeItLeaves) {
  Start(1, 3, 6);
  FakeShard& dead = shards().at("shard-0");
  const v1::Member over = dead.member();
  const v1::Member leaver = shards().at("shard-1").member();
  std::set<uint32_t> shared;
  const std::vector<v1::SegmentConfig> before = Configs();
  for (uint32_t s = 0; s < before.size(); ++s) {
    if (Same(before[s].primary(), over) && HasReplica(before[s], leaver)) shared.insert(s);
  }
  ASSERT_FALSE(shared.empty());
  const auto pending = Leave("shard-1", leaver.incarnation());
  cluster_->shards().BeatAll(cluster_->core());
  dead.up = false;
  for (int i = 0; i < 4; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(100));
  }
  EXPECT_FALSE(pending.answered());
  for (const uint32_t s : shared) EXPECT_TRUE(HasReplica(Config(s), leaver)) << s;

  cluster_->Run(absl::Seconds(4));  // its silence is noticed
  ASSERT_THAT(Wish(leaver, WishesToReplace(over, shards().at("shard-1"))), IsOk());
  for (int i = 0; i < 200 && !pending.answered(); ++i) {
    dead.recruits.clear();  // nobody is there to obey
    dead.hand_overs.clear();
    Obey();
    for (uint32_t s = 0; s < 64; ++s) {
      const v1::SegmentConfig config = Config(s);
      if (Same(config.primary(), leaver) && HasReplica(config, over)) {
        Ask("shard-1", v1::ConfigWish::DROP, s, over);
      }
    }
    cluster_->Run(absl::Milliseconds(100));
  }
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_THAT(pending->kept(), IsEmpty());
  for (const uint32_t s : shared) {
    EXPECT_TRUE(Same(Config(s).primary(), shards().at("shard-2").member()))
        << "copied there first: " << Config(s).ShortDebugString();
  }
}

TEST_F(MovesTest, ALeavingShardKeepsLeavingDuringAHandOver) {
  Start(1);
  const v1::Member leaver = shards().at("shard-1").member();
  const auto leave = Leave("shard-1", leaver.incarnation());
  const auto hand_over = HandOver("shard-1");
  for (int i = 0; i < 40; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(250));
  }
  EXPECT_THAT(leave.status(), IsOk());
  EXPECT_THAT(hand_over.status(), IsOk());
  for (const v1::SegmentConfig& config : Configs()) {
    EXPECT_FALSE(HasReplica(config, leaver)) << "nor is it recruited: " << config.ShortDebugString();
  }
}

TEST_F(MovesTest, WhenAllLeaveNoneWaitsAndTheReasonIsNamed) {
  Start(1);
  std::vector<Pending<v1::HandOverShardReply>> pending;
  for (const char* name : {"shard-0", "shard-1", "shard-2"}) {
    pending.push_back(Leave(name, shards().at(name).member().incarnation()));
  }
  for (int i = 0; i < 50; ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(100));
  }
  for (const auto& reply : pending) ASSERT_TRUE(reply.answered());
  EXPECT_THAT(pending.back()->kept(), Contains(HasSubstr("is about to end as well")));
  for (const v1::SegmentConfig& config : Configs()) EXPECT_EQ(config.replicas_size(), 1);
}

TEST_F(MovesTest, AnEarlierStartDoesNotMakeTheNextOneLeave) {
  Start(1);
  const uint64_t earlier = shards().at("shard-1").member().incarnation();
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  EXPECT_THAT(Leave("shard-1", earlier).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("is over; the newest is")));
}

TEST_F(MovesTest, MovesTowardsALeavingShardAreHandedOverToo) {
  Start(1, 3, 6);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  const v1::Member it = shards().at("shard-1").member();
  const auto is_given_some = [&] {
    for (const auto& [name, shard] : shards().all()) {
      for (const auto& request : shard.hand_overs) {
        for (const auto& segment : request.segments()) {
          if (Same(segment.to(), it)) return true;
        }
      }
    }
    return false;
  };
  for (int i = 0; i < 100 && !is_given_some(); ++i) {
    DropDead();
    Obey();
    cluster_->Run(absl::Milliseconds(500));
  }
  ASSERT_TRUE(is_given_some());
  const auto pending = HandOver("shard-1");
  for (int i = 0; i < 20 && !pending.answered(); ++i) {
    Obey();
    cluster_->Run(absl::Milliseconds(100));
  }
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_THAT(pending->kept(), IsEmpty());
  Obey();
  cluster_->Run(absl::Milliseconds(100));
  EXPECT_EQ(Primaries().count(it.shard()), 0u);
}

TEST_F(MovesTest, WithoutReplicasEverythingStaysAndTheReasonIsNamed) {
  Start(0);
  const auto pending = HandOver("shard-1");
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_EQ(pending->handed_over(), 0u);
  EXPECT_THAT(pending->kept(), ElementsAre(AllOf(HasSubstr("segments "), HasSubstr("--replicas 0"))));
}

TEST_F(MovesTest, AReplicaThatCatchesUpIsWaitedForUntilTheDeadline) {
  Start(1, 2);
  const v1::SegmentConfig config = Config(3);
  ASSERT_THAT(Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})}), IsOk());
  const auto pending = HandOver(NameOf(config.primary()), 3000);
  cluster_->Run(absl::Milliseconds(500));
  ObeyHandOvers();
  cluster_->Run(absl::Seconds(2));
  EXPECT_FALSE(pending.answered());
  cluster_->Run(absl::Seconds(1));
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_EQ(pending->handed_over(), 3u);
  EXPECT_THAT(pending->kept(), ElementsAre(AllOf(HasSubstr("segments 3:"), HasSubstr("is catching up"))));
}

TEST_F(MovesTest, ASwapThatDoesNotComeIsNamed) {
  Start(1, 2);
  const auto pending = HandOver("shard-1", 2000);
  cluster_->Run(absl::Milliseconds(2100));
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_EQ(pending->handed_over(), 0u);
  EXPECT_THAT(pending->kept(),
              ElementsAre(AllOf(HasSubstr("shard-0"), HasSubstr("has not taken over in time"))));
}

TEST_F(MovesTest, AHandOverNeedsAShardThatLives) {
  Start(1);
  EXPECT_THAT(HandOver("shard-9").status(), StatusIs(StatusCode::kNotFound, HasSubstr("shard-9")));
  shards().at("shard-1").up = false;
  cluster_->Run(absl::Seconds(5));
  EXPECT_THAT(HandOver("shard-1").status(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("silent")));
  const auto pending = HandOver("shard-0");
  EXPECT_FALSE(pending.answered());
  cluster_->core().Abandon(pending.ticket);
  EXPECT_THAT(pending.status(), StatusIs(StatusCode::kCancelled));
  const auto stopped = HandOver("shard-2");
  cluster_->core().Stop();
  EXPECT_THAT(stopped.status(), StatusIs(StatusCode::kUnavailable));
}

TEST_F(MovesTest, AShardThatDiesMeanwhileEndsItsHandOver) {
  Start(1);
  const auto pending = HandOver("shard-1", 60'000);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  ASSERT_THAT(shards().Beat(cluster_->core(), "shard-1"), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  ASSERT_THAT(pending.status(), IsOk());
  EXPECT_EQ(Primaries().count(shards().at("shard-1").id), 0u);
}

}  // namespace
}  // namespace paceline::coordinator
