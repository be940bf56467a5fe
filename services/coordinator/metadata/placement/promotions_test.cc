// Primaries that are silent, or over, are replaced by their replicas.
#include <utility>

#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Fault = FaultyStore::Fault;

class PromotionsTest : public ReplicatedTest {};

TEST_F(PromotionsTest, ASilentPrimaryIsReplacedByTheReplicaThatWishes) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  const auto reply = Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->segments(0).why_not(), "") << "it is under way";
  EXPECT_EQ(reply->segments(0).config().epoch(), 1u);
  cluster_->Run(absl::Milliseconds(20));
  const FakeShard& replica = ShardOf(config.replicas(0));
  ASSERT_EQ(replica.fences.size(), 1u);
  ASSERT_EQ(replica.fences[0].segments_size(), 1);
  EXPECT_EQ(replica.fences[0].segments(0).epoch(), 2u) << "the one to come";
  EXPECT_TRUE(replica.fences[0].segments(0).only_if_silent());
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), config.replicas(0)));
  EXPECT_THAT(Config(3).replicas(), IsEmpty()) << "the old primary is not in the new epoch";
  EXPECT_TRUE(replica.IsPrimaryOf(3)) << "it was told";
  EXPECT_EQ(cluster_->core().gauges().takeovers, 1u);
  EXPECT_TRUE(ShardOf(config.primary()).fences.empty());
}

TEST_F(PromotionsTest, AReplicaThatHearsItsPrimaryIsNotFenced) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  ShardOf(config.replicas(0)).not_silent = {3};
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 1u);
  EXPECT_EQ(ShardOf(config.replicas(0)).fences.size(), 1u) << "it may wish again";
}

TEST_F(PromotionsTest, TheMostAdvancedReplicaBecomesPrimary) {
  for (const bool by_epoch : {false, true}) {
    Start(2);
    const v1::SegmentConfig config = Config(3);
    ShardOf(config.replicas(0)).logs[3] = {1, 50};
    ShardOf(config.replicas(1)).logs[3] = by_epoch ? std::pair(2, 40) : std::pair(1, 51);
    ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
    cluster_->Run(absl::Milliseconds(20));
    EXPECT_EQ(Config(3).epoch(), 2u);
    EXPECT_TRUE(Same(Config(3).primary(), config.replicas(1)));
    ASSERT_EQ(Config(3).replicas_size(), 1);
    EXPECT_TRUE(Same(Config(3).replicas(0), config.replicas(0)));
    ASSERT_EQ(ShardOf(config.replicas(1)).fences.size(), 1u);
    EXPECT_FALSE(ShardOf(config.replicas(1)).fences[0].segments(0).only_if_silent());
  }
}

TEST_F(PromotionsTest, TheOthersAreFencedOnlyAfterTheFirstOne) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const std::string wisher = NameOf(config.replicas(0));
  shards().hold = [&](const std::string& call, const std::string& shard) {
    return call == "Fence" && shard == wisher;
  };
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  EXPECT_TRUE(ShardOf(config.replicas(1)).fences.empty());
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Milliseconds(20));
  EXPECT_EQ(ShardOf(config.replicas(1)).fences.size(), 1u);
  EXPECT_EQ(Config(3).epoch(), 2u);
}

TEST_F(PromotionsTest, AReplicaThatAnswersLateIsLeftOut) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const std::string late = NameOf(config.replicas(1));
  ShardOf(config.replicas(1)).logs[3] = {1, 99};
  shards().hold = [&](const std::string& call, const std::string& shard) {
    return call == "Fence" && shard == late;
  };
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(100));
  EXPECT_EQ(Config(3).epoch(), 1u);
  cluster_->Run(absl::Milliseconds(100));
  const v1::SegmentConfig now = Config(3);
  EXPECT_EQ(now.epoch(), 2u);
  EXPECT_TRUE(Same(now.primary(), config.replicas(0)));
  EXPECT_THAT(now.replicas(), IsEmpty());
  shards().LetGo();
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).SerializeAsString(), now.SerializeAsString()) << "its answer comes too late";
}

TEST_F(PromotionsTest, TwoReplicasWishAtOnceAndOneEpochFollows) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  for (const v1::Member& replica : config.replicas()) {
    EXPECT_EQ(Wish(replica, {WishOf(v1::ConfigWish::PROMOTE, 3, 1)})->segments(0).why_not(), "");
  }
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_EQ(Config(3).replicas_size(), 1);
  EXPECT_EQ(cluster_->core().gauges().takeovers, 1u);
  const auto late = Wish(config.replicas(1), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)});
  EXPECT_THAT(late->segments(0).why_not(), HasSubstr("epoch 2"));
}

TEST_F(PromotionsTest, IfTheFirstStillHearsThePrimaryTheNextIsAsked) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  ShardOf(config.replicas(0)).not_silent = {3};
  for (const v1::Member& replica : config.replicas()) {
    ASSERT_THAT(Wish(replica, {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  }
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(Config(3).epoch(), 2u);
  ASSERT_EQ(ShardOf(config.replicas(1)).fences.size(), 1u);
  EXPECT_TRUE(ShardOf(config.replicas(1)).fences[0].segments(0).only_if_silent());
  ASSERT_EQ(ShardOf(config.replicas(0)).fences.size(), 2u);
  EXPECT_FALSE(ShardOf(config.replicas(0)).fences[1].segments(0).only_if_silent());
}

TEST_F(PromotionsTest, AReplicaThatWishesAgainIsAskedOnce) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  for (int again = 0; again < 2; ++again) {
    for (const v1::Member& replica : config.replicas()) {
      ShardOf(replica).not_silent = {3};
      ASSERT_THAT(Wish(replica, {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
    }
  }
  cluster_->Run(absl::Milliseconds(50));
  for (const v1::Member& replica : config.replicas()) EXPECT_EQ(ShardOf(replica).fences.size(), 1u);
  EXPECT_EQ(Config(3).epoch(), 1u);
}

TEST_F(PromotionsTest, ALessAdvancedReplicaThatAnswersLastStaysAReplica) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  ShardOf(config.replicas(0)).logs[3] = {1, 51};
  ShardOf(config.replicas(1)).logs[3] = {1, 50};
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(20));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), config.replicas(0)));
  ASSERT_EQ(Config(3).replicas_size(), 1);
  EXPECT_TRUE(Same(Config(3).replicas(0), config.replicas(1)));
}

TEST_F(PromotionsTest, NothingIsCommittedOnceTheEpochHasMoved) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(20));
  // The primary lives after all, and drops the replica: its wish came first.
  ASSERT_THAT(Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})}), IsOk());
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), config.primary()));
  EXPECT_TRUE(ShardOf(config.replicas(1)).fences.empty()) << "the attempt ended";
}

TEST_F(PromotionsTest, ALostFenceEndsTheAttemptAndTheReplicaWishesAgain) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  shards().drop_calls = [] { return true; };
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(300));
  shards().drop_calls = [] { return false; };
  EXPECT_EQ(Config(3).epoch(), 1u);
  EXPECT_TRUE(ShardOf(config.replicas(0)).fences.empty());
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(Config(3).epoch(), 2u);
}

// It was about another epoch, in which the replica might not have been asked.
TEST_F(PromotionsTest, AnAnswerToAnEarlierAttemptDoesNotCount) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const v1::Member wisher = config.replicas(0);
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  ASSERT_THAT(Wish(wisher, {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(20));
  ASSERT_THAT(Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(1)})}), IsOk());
  cluster_->Run(absl::Milliseconds(20));
  ASSERT_EQ(Config(3).epoch(), 2u);
  shards().drop_calls = [] { return true; };
  ASSERT_THAT(Wish(wisher, {WishOf(v1::ConfigWish::PROMOTE, 3, 2)}), IsOk());
  cluster_->Run(absl::Milliseconds(20));
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(ShardOf(wisher).fences.size(), 1u) << "the first one";
  EXPECT_EQ(Config(3).epoch(), 2u);
  cluster_->Run(absl::Milliseconds(200));
  shards().drop_calls = [] { return false; };
  ASSERT_THAT(Wish(wisher, {WishOf(v1::ConfigWish::PROMOTE, 3, 2)}), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(Config(3).epoch(), 3u);
  EXPECT_TRUE(Same(Config(3).primary(), wisher));
}

TEST_F(PromotionsTest, ATakeoverIsReported) {
  struct Takeovers final : Probe {
    void SegmentsTakenOver(size_t segments) override { taken += segments; }
    size_t taken = 0;
  } takeovers;
  Start(1);
  cluster_->probe = &takeovers;
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Milliseconds(500));
  ASSERT_THAT(Wish(Config(3).replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(takeovers.taken, 1u);
  cluster_.reset();
}

TEST_F(PromotionsTest, AFailedCommitIsTriedAgainByTheNextWish) {
  for (const Fault fault : {Fault::kFailBefore, Fault::kFailAfter}) {
    Start(1);
    const v1::SegmentConfig config = Config(3);
    cluster_->store().Plan(fault, 1);
    ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
    cluster_->Run(absl::Milliseconds(300));
    EXPECT_EQ(Config(3).epoch(), 1u);
    EXPECT_EQ(ShardOf(config.replicas(0)).map.version(), 1u) << "nobody is told what is not known to be so";
    EXPECT_EQ(cluster_->core().gauges().takeovers, 0u);
    ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
    cluster_->Run(absl::Milliseconds(300));
    EXPECT_EQ(Config(3).epoch(), 2u);
    EXPECT_TRUE(ShardOf(config.replicas(0)).IsPrimaryOf(3));
  }
}

TEST_F(PromotionsTest, ANewCoordinatorBeginsTheTakeoverAgain) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(20));
  ASSERT_THAT(cluster_->Restart(), IsOk());
  shards().hold = [](auto&, auto&) { return false; };
  cluster_->Run(absl::Milliseconds(500));
  EXPECT_EQ(Config(3).epoch(), 1u);
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(ShardOf(Config(3).primary()).IsPrimaryOf(3));
}

TEST_F(PromotionsTest, AKilledShardCostsOneCallAShardAndOneCommit) {
  Start(2, 3, 6);
  const v1::Member dead = Config(0).primary();
  ShardOf(dead).up = false;
  std::vector<FakeShard*> others;
  for (auto& [name, shard] : shards().all()) {
    if (shard.id != dead.shard()) others.push_back(&shard);
  }
  const std::vector<v1::ConfigWish> wishes = WishesToReplace(dead, *others[0]);
  ASSERT_GE(wishes.size(), 21u);
  const int commits = cluster_->store().commits();
  const uint64_t version = Map().version();
  ASSERT_THAT(Wish(others[0]->member(), wishes), IsOk());
  ASSERT_THAT(Wish(others[1]->member(), WishesToReplace(dead, *others[1])), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(cluster_->store().commits(), commits + 1);
  EXPECT_EQ(Map().version(), version + 1);
  for (const FakeShard* shard : others) {
    EXPECT_EQ(shard->fences.size(), 1u);
    EXPECT_EQ(shard->map.version(), version + 1);
  }
  std::map<uint32_t, int> primaries;
  for (const auto& segment : Configs()) primaries[segment.primary().shard()] += 1;
  EXPECT_EQ(primaries.size(), 2u);
  for (const auto& [shard, count] : primaries) EXPECT_EQ(count, 32) << "equals are spread";
  EXPECT_EQ(cluster_->core().gauges().takeovers, wishes.size());
}

TEST_F(PromotionsTest, SegmentsThatAreReadyDoNotWaitLongForOthers) {
  Start(2);
  const v1::Member dead = Config(0).primary();
  std::vector<FakeShard*> others;
  for (auto& [name, shard] : shards().all()) {
    if (shard.id != dead.shard()) others.push_back(&shard);
  }
  const std::vector<v1::ConfigWish> wishes = WishesToReplace(dead, *others[0]);
  ASSERT_GE(wishes.size(), 2u);
  ASSERT_THAT(Wish(others[0]->member(), {wishes[0]}), IsOk());
  const std::string slow = NameOf(others[1]->member());
  shards().Deliver();
  shards().hold = [](const std::string& call, auto&) { return call == "Fence"; };
  ASSERT_THAT(Wish(others[0]->member(), {wishes[1]}), IsOk());
  cluster_->Run(absl::Milliseconds(30));
  EXPECT_EQ(Config(wishes[0].segment()).epoch(), 2u);
  EXPECT_EQ(Config(wishes[1].segment()).epoch(), 1u);
}

TEST_F(PromotionsTest, ASegmentThatIsReadyDoesNotWaitLongForOneWhoseReplicaIsSlow) {
  Start(1);
  const v1::Member ready = Config(0).replicas(0);
  uint32_t other = 1;
  while (Same(Config(other).replicas(0), ready)) ++other;
  const v1::Member slow = Config(other).replicas(0);
  shards().hold = [name = NameOf(slow)](const std::string& call, const std::string& shard) {
    return call == "Fence" && shard == name;
  };
  ASSERT_THAT(Wish(ready, {WishOf(v1::ConfigWish::PROMOTE, 0, 1)}), IsOk());
  ASSERT_THAT(Wish(slow, {WishOf(v1::ConfigWish::PROMOTE, other, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(30));
  EXPECT_EQ(Config(0).epoch(), 2u);
  EXPECT_EQ(Config(other).epoch(), 1u);
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Milliseconds(30));
  EXPECT_EQ(Config(other).epoch(), 2u);
}

// -- starts that are over --

// It died while it joined, and its call comes after that of the start that followed it. That one goes on
// answering until it is told.
TEST_F(PromotionsTest, AStartThatHasNotBeatenDoesNotEndTheOneBefore) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  for (auto& [other, shard] : shards().all()) shard.not_silent = {0, 1, 2, 3, 4, 5, 6, 7};
  cluster_->beating = false;
  ASSERT_THAT(shards().Join(cluster_->core(), NameOf(config.primary())), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 1u);
}

TEST_F(PromotionsTest, ARestartedPrimaryIsReplacedAtOnce) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const std::string name = NameOf(config.primary());
  // Its replicas do not even know yet: no silence is needed, since the start is over.
  for (auto& [other, shard] : shards().all()) shard.not_silent = {0, 1, 2, 3, 4, 5, 6, 7};
  ASSERT_THAT(shards().Join(cluster_->core(), name), IsOk());
  ASSERT_THAT(shards().Beat(cluster_->core(), name), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  const v1::SegmentConfig now = Config(3);
  EXPECT_EQ(now.epoch(), 2u);
  EXPECT_THAT(Shards(config), Contains(now.primary().shard()));
  EXPECT_EQ(now.replicas_size(), 1);
  for (const auto& segment : Configs()) {
    EXPECT_NE(segment.primary().shard(), config.primary().shard());
    for (const auto& replica : segment.replicas()) {
      // Where it was a replica it stays until the primary asks for it to be dropped.
      if (replica.shard() == config.primary().shard()) {
        EXPECT_EQ(segment.epoch(), 1u);
      }
    }
  }
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u);
  EXPECT_NE(cluster_->Opened("ctr"), 0u);
}

TEST_F(PromotionsTest, ARestartedPrimaryIsReplacedByTheNextCoordinatorToo) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  shards().drop_calls = [] { return true; };
  ASSERT_THAT(shards().Join(cluster_->core(), NameOf(config.primary())), IsOk());
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 1u);
  shards().drop_calls = [] { return false; };
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(Config(3).epoch(), 2u) << "it is tried again without a wish";
  EXPECT_TRUE(Same(Config(3).primary(), config.replicas(0)));
}

TEST_F(PromotionsTest, AnEarlierStartIsNotListenedToAndNotPromoted) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const v1::Member old = config.replicas(0);
  ASSERT_THAT(shards().Join(cluster_->core(), NameOf(old)), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  v1::ChangeConfigsRequest request;
  *request.mutable_from() = old;
  *request.add_wishes() = WishOf(v1::ConfigWish::PROMOTE, 3, 1);
  EXPECT_THAT(cluster_->core().ChangeConfigs(request),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("newest start")));
  // Its new start is no member.
  EXPECT_THAT(Wish(old, {WishOf(v1::ConfigWish::PROMOTE, 3, 1)})->segments(0).why_not(),
              HasSubstr("is not a replica"));
  EXPECT_THAT(Wish(config.primary(), {WishOf(v1::ConfigWish::SWAP, 3, 1, {old})})->segments(0).why_not(),
              HasSubstr("started again"));
  ASSERT_THAT(Wish(config.replicas(1), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), config.replicas(1)));
  EXPECT_THAT(Config(3).replicas(), IsEmpty());
  EXPECT_TRUE(ShardOf(old).fences.empty());
}

TEST_F(PromotionsTest, AReplicaThatRestartsBetweenFenceAndCommitIsNotPromoted) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  ShardOf(config.replicas(0)).logs[3] = {1, 99};
  const std::string slow = NameOf(config.replicas(1));
  shards().hold = [&](const std::string& call, const std::string& shard) {
    return call == "Fence" && shard == slow;
  };
  ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
  cluster_->Run(absl::Milliseconds(50));
  ASSERT_THAT(shards().Join(cluster_->core(), NameOf(config.replicas(0))), IsOk());
  shards().hold = [](auto&, auto&) { return false; };
  shards().LetGo();
  cluster_->Run(absl::Milliseconds(50));
  EXPECT_EQ(Config(3).epoch(), 2u);
  EXPECT_TRUE(Same(Config(3).primary(), config.replicas(1)));
  EXPECT_THAT(Config(3).replicas(), IsEmpty());
}

TEST_F(PromotionsTest, ASegmentIsLostOnlyWithItsLastMember) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  ShardOf(config.replicas(0)).up = false;
  ASSERT_THAT(shards().Join(cluster_->core(), NameOf(config.primary())), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u) << "its replica may come back";
  ASSERT_THAT(shards().Join(cluster_->core(), NameOf(config.replicas(0))), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_GE(cluster_->core().gauges().segments_lost, 1u);
  EXPECT_THAT(cluster_->Problems(), Contains(AllOf(HasSubstr("acknowledged data of segments"),
                                                   HasSubstr("of their replicas too"))));
  EXPECT_THAT(cluster_->OpenSession("ctr", 7).status(), StatusIs(StatusCode::kDataLoss));
}

TEST_F(PromotionsTest, BeforeAnySessionNothingIsLostWithTheLastMember) {
  cluster_ = std::make_unique<TestCluster>(2, Options{.replicas = 1, .ring_bits = 3});
  cluster_->JoinShards();
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-0"), IsOk());
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  cluster_->Run(absl::Seconds(1));
  EXPECT_EQ(cluster_->core().gauges().segments_lost, 0u);
  for (uint32_t s = 0; s < 8; ++s) {
    EXPECT_EQ(Config(s).primary().incarnation(), ShardOf(Config(s).primary()).incarnation);
  }
  EXPECT_NE(cluster_->Opened("ctr"), 0u);
}

}  // namespace
}  // namespace paceline::coordinator
