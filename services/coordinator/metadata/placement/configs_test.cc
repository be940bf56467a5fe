// Members' wishes about the configurations of their segments.
#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Fault = FaultyStore::Fault;

class ConfigsTest : public ReplicatedTest {};

// -- the first map --

TEST_F(ConfigsTest, TheFirstMapHasReplicasOnOtherShardsSpreadEvenly) {
  Start(1, 3, 6);
  const v1::Map map = Map();
  std::map<uint32_t, int> primaries;
  std::map<uint32_t, int> members;
  for (const auto& segment : map.segments()) {
    ASSERT_EQ(segment.replicas_size(), 1);
    EXPECT_EQ(segment.epoch(), 1u);
    EXPECT_NE(segment.replicas(0).shard(), segment.primary().shard());
    EXPECT_EQ(segment.replicas(0).incarnation(), ShardOf(segment.replicas(0)).incarnation);
    primaries[segment.primary().shard()] += 1;
    members[segment.primary().shard()] += 1;
    members[segment.replicas(0).shard()] += 1;
  }
  for (const auto& [shard, count] : primaries) EXPECT_THAT(count, AnyOf(21, 22)) << shard;
  for (const auto& [shard, count] : members) EXPECT_THAT(count, AnyOf(42, 43, 44)) << shard;
}

TEST_F(ConfigsTest, TooFewShardsGetAsManyReplicasAsPossible) {
  Start(2, 2);
  for (const auto& segment : Configs()) EXPECT_EQ(segment.replicas_size(), 1);
}

// -- wishes of the primary --

TEST_F(ConfigsTest, AReplicaCarriesTheWishesOfACutOffPrimary) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  const auto carry = [&](v1::ConfigWish::Kind kind, const v1::Member& by) {
    v1::ChangeConfigsRequest request;
    *request.mutable_from() = config.primary();
    *request.mutable_carried_by() = by;
    const bool swap = kind == v1::ConfigWish::SWAP;
    *request.add_wishes() = WishOf(kind, 3, 1, {});
    if (swap) *request.mutable_wishes(0)->add_members() = config.replicas(0);
    return cluster_->core().ChangeConfigs(request);
  };
  EXPECT_THAT(carry(v1::ConfigWish::DROP, config.replicas(0)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(carry(v1::ConfigWish::PROMOTE, config.replicas(0)), StatusIs(StatusCode::kInvalidArgument));
  v1::Member before = config.replicas(0);
  before.set_incarnation(before.incarnation() - 1);
  EXPECT_THAT(carry(v1::ConfigWish::SWAP, before), StatusIs(StatusCode::kFailedPrecondition));
  const auto reply = carry(v1::ConfigWish::SWAP, config.replicas(0));
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->segments(0).why_not(), "");
  EXPECT_TRUE(Same(Config(3).primary(), config.replicas(0)));
  EXPECT_TRUE(Same(Config(3).replicas(0), config.primary())) << "nobody was fenced";
}

TEST_F(ConfigsTest, APrimaryDropsAReplica) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const auto reply = Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})});
  ASSERT_THAT(reply, IsOk());
  ASSERT_EQ(reply->segments_size(), 1);
  EXPECT_EQ(reply->segments(0).why_not(), "");
  EXPECT_EQ(reply->segments(0).config().epoch(), 2u);
  EXPECT_TRUE(Same(reply->segments(0).config().primary(), config.primary()));
  ASSERT_EQ(reply->segments(0).config().replicas_size(), 1);
  EXPECT_TRUE(Same(reply->segments(0).config().replicas(0), config.replicas(1)));
  EXPECT_EQ(reply->map_version(), 2u);
  EXPECT_EQ(Config(3).SerializeAsString(), reply->segments(0).config().SerializeAsString());
  // The same again, since the answer was lost: the answer shows what became of it.
  const auto again = Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})});
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->segments(0).why_not(), AllOf(HasSubstr("epoch 1"), HasSubstr("epoch 2")));
  EXPECT_EQ(again->segments(0).config().SerializeAsString(), Config(3).SerializeAsString());
  EXPECT_EQ(again->map_version(), 2u);
}

TEST_F(ConfigsTest, ManyWishesAreOneCommitAndOneMap) {
  Start(2);
  const v1::Member primary = Config(0).primary();
  std::vector<v1::ConfigWish> wishes;
  for (uint32_t s = 0; s < 8; ++s) {
    const v1::SegmentConfig config = Config(s);
    if (Same(config.primary(), primary)) {
      wishes.push_back(WishOf(v1::ConfigWish::DROP, s, 1, {config.replicas(0)}));
    }
  }
  ASSERT_GE(wishes.size(), 2u);
  const int commits = cluster_->store().commits();
  const auto reply = Wish(primary, wishes);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(cluster_->store().commits(), commits + 1);
  EXPECT_EQ(reply->map_version(), 2u);
  for (const auto& segment : reply->segments()) EXPECT_EQ(segment.config().epoch(), 2u);
}

TEST_F(ConfigsTest, ALearnerIsAddedAndItsShardMustBeAliveAndNew) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  v1::Member learner;
  learner.set_shard(3 - config.primary().shard() - config.replicas(0).shard());
  learner.set_incarnation(ShardOf(learner).incarnation + 7);
  const auto add = [&](const v1::Member& member, uint64_t epoch) {
    return *Wish(config.primary(), {WishOf(v1::ConfigWish::ADD, 3, epoch, {member})});
  };
  EXPECT_THAT(add(learner, 1).segments(0).why_not(), HasSubstr("is not alive"));
  learner.set_incarnation(ShardOf(learner).incarnation);
  EXPECT_THAT(add(config.replicas(0), 1).segments(0).why_not(), HasSubstr("distinct shards"));
  EXPECT_THAT(add(config.primary(), 1).segments(0).why_not(), HasSubstr("distinct shards"));
  ShardOf(learner).up = false;
  cluster_->Run(absl::Seconds(5));
  EXPECT_THAT(add(learner, 1).segments(0).why_not(), HasSubstr("is not alive"));
  ShardOf(learner).up = true;
  cluster_->Run(absl::Seconds(1));
  const v1::ChangeConfigsReply added = add(learner, 1);
  EXPECT_EQ(added.segments(0).why_not(), "");
  EXPECT_EQ(added.segments(0).config().epoch(), 2u);
  EXPECT_THAT(Shards(added.segments(0).config()),
              UnorderedElementsAre(config.replicas(0).shard(), learner.shard()));
}

TEST_F(ConfigsTest, ASwapExchangesTheRolesAndCounts) {
  Start(2);
  const v1::SegmentConfig config = Config(3);
  const auto reply = Wish(config.primary(), {WishOf(v1::ConfigWish::SWAP, 3, 1, {config.replicas(1)})});
  ASSERT_THAT(reply, IsOk());
  const v1::SegmentConfig now = reply->segments(0).config();
  EXPECT_EQ(now.epoch(), 2u);
  EXPECT_TRUE(Same(now.primary(), config.replicas(1)));
  EXPECT_THAT(Shards(now), UnorderedElementsAre(config.primary().shard(), config.replicas(0).shard()));
  EXPECT_EQ(cluster_->core().gauges().handovers, 1u);
  // The question "still me?" after a lost answer is a wish of its own.
  const auto keep = Wish(config.primary(), {WishOf(v1::ConfigWish::KEEP, 3, 1)});
  EXPECT_THAT(keep->segments(0).why_not(), HasSubstr("epoch 2"));
  EXPECT_EQ(Wish(now.primary(), {WishOf(v1::ConfigWish::KEEP, 3, 2)})->segments(0).config().epoch(), 3u);
  EXPECT_THAT(
      Wish(config.primary(), {WishOf(v1::ConfigWish::SWAP, 3, 2, {now.primary()})})->segments(0).why_not(),
      HasSubstr("epoch"));
}

TEST_F(ConfigsTest, OnlyThePrimaryIsGrantedASwapAndOnlyWithAReplica) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  const auto why_not = [&](const v1::Member& from, const v1::ConfigWish& wish) {
    return Wish(from, {wish})->segments(0).why_not();
  };
  EXPECT_THAT(why_not(config.replicas(0), WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})),
              HasSubstr("is not the primary"));
  EXPECT_THAT(why_not(config.primary(), WishOf(v1::ConfigWish::DROP, 3, 1, {config.primary()})),
              HasSubstr("is not a replica"));
  v1::Member other;
  other.set_shard(3 - config.primary().shard() - config.replicas(0).shard());
  other.set_incarnation(ShardOf(other).incarnation);
  EXPECT_THAT(why_not(config.primary(), WishOf(v1::ConfigWish::SWAP, 3, 1, {other})),
              HasSubstr("is not a replica"));
  EXPECT_THAT(why_not(config.primary(), WishOf(v1::ConfigWish::DROP, 3, 1)), HasSubstr("at least one"));
  EXPECT_THAT(why_not(config.primary(), WishOf(v1::ConfigWish::KEEP, 3, 1, {other})),
              HasSubstr("expected none"));
  EXPECT_THAT(why_not(config.primary(), WishOf(v1::ConfigWish::KIND_UNSPECIFIED, 3, 1)), HasSubstr("kind"));
  EXPECT_THAT(why_not(other, WishOf(v1::ConfigWish::PROMOTE, 3, 1)), HasSubstr("is not a replica"));
  EXPECT_THAT(why_not(config.primary(), WishOf(v1::ConfigWish::PROMOTE, 3, 1)),
              HasSubstr("is not a replica"));
  EXPECT_EQ(Config(3).epoch(), 1u);
  EXPECT_THAT(Wish(other, {WishOf(v1::ConfigWish::PROMOTE, 8, 1)}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("segment: 8")));
  v1::ChangeConfigsRequest foreign;
  *foreign.mutable_from() = other;
  foreign.set_cluster(99);
  EXPECT_THAT(cluster_->core().ChangeConfigs(foreign), StatusIs(StatusCode::kFailedPrecondition));
}

// Its store may be an older copy, whose next map bears the number of one that some shard knows.
TEST_F(ConfigsTest, ANewCoordinatorWaitsForAllButTheSilentBeforeItMakesAMap) {
  Start(1);
  const v1::SegmentConfig config = Config(3);
  const v1::Member dead = config.primary();
  const v1::Member replica = config.replicas(0);
  shards().at(NameOf(dead)).up = false;
  cluster_->beating = false;
  ASSERT_THAT(cluster_->Restart(), IsOk());
  const auto why = [&](const v1::Member& from, const v1::ConfigWish& wish) {
    const auto reply = Wish(from, {wish});
    return reply.ok() ? reply->segments(0).why_not() : std::string(reply.status().message());
  };
  const v1::ConfigWish promote = WishOf(v1::ConfigWish::PROMOTE, 3, 1);
  EXPECT_THAT(why(replica, promote), HasSubstr("has heard of"));
  for (auto& [name, shard] : shards().all()) {
    if (!shard.up) continue;
    ASSERT_THAT(shards().Beat(cluster_->core(), name), IsOk());
  }
  EXPECT_EQ(why(replica, promote), "") << "the primary is silent";
  EXPECT_THAT(why(dead, WishOf(v1::ConfigWish::KEEP, 3, 1)), HasSubstr("has heard of"));
  cluster_->Run(absl::Seconds(1));
  EXPECT_TRUE(Same(Config(3).primary(), replica));
}

TEST_F(ConfigsTest, AFailedCommitGrantsNothing) {
  for (const Fault fault : {Fault::kFailBefore, Fault::kFailAfter}) {
    Start(1);
    const v1::SegmentConfig config = Config(3);
    cluster_->store().Plan(fault, 1);
    EXPECT_THAT(Wish(config.primary(), {WishOf(v1::ConfigWish::DROP, 3, 1, {config.replicas(0)})}),
                StatusIs(StatusCode::kUnavailable));
    EXPECT_EQ(Config(3).epoch(), 1u);
    // The next decision does not take it into account: the replica may still take over, from the same epoch.
    ASSERT_THAT(Wish(config.replicas(0), {WishOf(v1::ConfigWish::PROMOTE, 3, 1)}), IsOk());
    cluster_->Run(absl::Milliseconds(300));
    EXPECT_TRUE(Same(Config(3).primary(), config.replicas(0)));
    ASSERT_THAT(cluster_->Restart(), IsOk());
    EXPECT_TRUE(Same(Config(3).primary(), config.replicas(0)));
    EXPECT_EQ(Config(3).epoch(), 2u);
  }
}

}  // namespace
}  // namespace paceline::coordinator
