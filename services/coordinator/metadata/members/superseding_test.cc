// Two processes of one name, and shards that are removed.
#include <set>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kCluster = 77;

// -- two processes of one name --

class SupersedingTest : public ::testing::Test {
 protected:
  SupersedingTest() : cluster_(2, {.replicas = 1, .ring_bits = 3}) {
    cluster_.shards().proves_ends = false;
    cluster_.JoinShards();
    cluster_.Run(absl::Seconds(1));
  }
  // Another process asks to be shard-0, without a folder.
  absl::Status AskAgain() {
    v1::JoinClusterRequest request;
    request.set_feature_level(kFeatureLevel);
    request.set_name("shard-0");
    request.set_address("elsewhere:1");
    request.set_nonce(7777);
    return cluster_.core().JoinCluster(request).status();
  }
  std::set<uint64_t> Incarnations() {
    std::set<uint64_t> all;
    const v1::StatusReply status = cluster_.core().Status();
    for (const auto& shard : status.shards()) all.insert(shard.info().incarnation());
    return all;
  }
  size_t Fences() {
    size_t fences = 0;
    for (const auto& [name, shard] : cluster_.shards().all()) fences += shard.fences.size();
    return fences;
  }

  TestCluster cluster_;
};

TEST_F(SupersedingTest, AShardThatAnswersIsNotSuperseded) {
  const auto before = Incarnations();
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kAborted, HasSubstr("asked whether it lives")));
  cluster_.shards().Deliver();
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("lives"), HasSubstr("another --name"))));
  EXPECT_EQ(Incarnations(), before);
  EXPECT_THAT(cluster_.shards().Beat(cluster_.core(), "shard-0"), IsOk());
}

TEST_F(SupersedingTest, AShardThatDoesNotAnswerIsSupersededAfterAWhile) {
  cluster_.shards().at("shard-0").up = false;
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kAborted));
  cluster_.shards().Deliver();
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kUnavailable, HasSubstr("does not answer")));
  cluster_.Run(absl::Seconds(4));
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kAborted));
  cluster_.Run(absl::Milliseconds(20));
  EXPECT_THAT(AskAgain(), IsOk());
}

TEST_F(SupersedingTest, AnAnswerThatComesLateIsNone) {
  cluster_.shards().hold = [](const std::string& call, const std::string&) { return call == "Identify"; };
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kAborted));
  cluster_.Run(absl::Milliseconds(250));
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kUnavailable));
  cluster_.shards().LetGo();
  cluster_.shards().Deliver();
  EXPECT_THAT(AskAgain(), StatusIs(StatusCode::kUnavailable));
}

// Its process may still answer its clients: only a replica that is without beacons may take over.
TEST_F(SupersedingTest, ReplicasOfAnUnprovenEndWaitForSilence) {
  cluster_.shards().at("shard-0").up = false;
  cluster_.Run(absl::Seconds(4));
  const size_t fences = Fences();
  ASSERT_THAT(cluster_.shards().Join(cluster_.core(), "shard-0"), StatusIs(StatusCode::kAborted));
  cluster_.Run(absl::Milliseconds(20));
  ASSERT_THAT(cluster_.shards().JoinAgain(cluster_.core(), "shard-0"), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(Fences(), fences) << "nobody was without beacons";
  FakeShard& replica = cluster_.shards().at("shard-1");
  const v1::Map map = replica.map;
  std::vector<v1::ConfigWish> wishes;
  for (uint32_t s = 0; s < 8; ++s) {
    if (!replica.IsReplicaOf(s)) continue;
    wishes.emplace_back().set_segment(s);
    wishes.back().set_epoch(map.segments(static_cast<int>(s)).epoch());
    wishes.back().set_kind(v1::ConfigWish::PROMOTE);
  }
  ASSERT_FALSE(wishes.empty());
  ASSERT_THAT(cluster_.shards().Wish(cluster_.core(), "shard-1", wishes), IsOk());
  cluster_.Run(absl::Seconds(1));
  for (const v1::ConfigWish& wish : wishes) EXPECT_TRUE(replica.IsPrimaryOf(wish.segment()));
}

TEST(SupersededTest, ReplicasTakeOverAtOnceWhenTheFoldersLockProvesTheEnd) {
  TestCluster cluster(2, {.replicas = 1, .ring_bits = 3});
  cluster.JoinShards();
  cluster.Run(absl::Seconds(1));
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  cluster.Run(absl::Milliseconds(1500));
  EXPECT_FALSE(cluster.shards().at("shard-1").fences.empty());
  for (uint32_t s = 0; s < 8; ++s) EXPECT_TRUE(cluster.shards().at("shard-1").IsPrimaryOf(s)) << s;
}

// -- removing --

TEST(RemovalTest, NumbersAreNotGivenOutAgain) {
  TestCluster cluster(2, {.ring_bits = 3, .new_cluster = kCluster});
  cluster.JoinShards();
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "stray"), IsOk());
  cluster.Run(absl::Seconds(2));
  v1::RemoveShardRequest request;
  request.set_shard("shard-0");
  EXPECT_THAT(cluster.core().RemoveShard(request),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("member of segments")));
  request.set_shard("nobody");
  EXPECT_THAT(cluster.core().RemoveShard(request), StatusIs(StatusCode::kNotFound, HasSubstr("shard list")));
  request.set_shard("stray");
  cluster.beating = false;
  ASSERT_THAT(cluster.Restart(), IsOk());
  EXPECT_THAT(cluster.core().RemoveShard(request),
              StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of")))
      << "the store may not know what it is a member of";
  cluster.beating = true;
  cluster.Run(absl::Seconds(2));
  EXPECT_THAT(cluster.core().RemoveShard(request), StatusIs(StatusCode::kAborted));
  cluster.shards().Deliver();
  EXPECT_EQ(cluster.shards().at("stray").emptied, 1);
  const auto removed = cluster.core().RemoveShard(request);
  ASSERT_THAT(removed, IsOk());
  EXPECT_TRUE(removed->emptied());
  EXPECT_THAT(cluster.shards().Beat(cluster.core(), "stray"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was removed")));
  EXPECT_EQ(cluster.core().Status().shards_size(), 2);
  ASSERT_THAT(cluster.Restart(), IsOk());
  cluster.shards().at("stray").up = false;
  cluster.Run(absl::Seconds(2));
  for (const auto& [name, shard] : cluster.shards().all()) {
    if (name == "stray") continue;
    EXPECT_EQ(shard.map.shards_size(), 2) << name;
  }
  // The network may deliver a call of the removed start late: it makes no shard that nobody would ever hear.
  v1::JoinClusterRequest late;
  late.set_feature_level(1);
  late.set_name("stray");
  late.set_address("host:1");
  late.set_nonce(cluster.shards().at("stray").nonce);
  EXPECT_THAT(cluster.core().JoinCluster(late),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was removed")));
  EXPECT_EQ(cluster.core().Status().shards_size(), 2);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "stray"), IsOk());
  EXPECT_EQ(cluster.shards().at("stray").id, 3u);
}

// The operator who removed the shard gave up, or the coordinator ended, between the two steps.
TEST(RemovalTest, AShardThatHasEmptiedItsFolderIsGivenNothing) {
  TestCluster cluster(2, {.replicas = 1, .ring_bits = 3, .new_cluster = kCluster});
  cluster.JoinShards();
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "spare"), IsOk());
  v1::RemoveShardRequest request;
  request.set_shard("spare");
  ASSERT_THAT(cluster.core().RemoveShard(request), StatusIs(StatusCode::kAborted));
  cluster.shards().Deliver();
  ASSERT_EQ(cluster.shards().at("spare").emptied, 1);
  ASSERT_THAT(cluster.Restart(), IsOk());
  cluster.Run(absl::Seconds(1));  // until it has beaten it is a shard as any other
  for (const auto& [name, shard] : cluster.shards().all()) cluster.shards().at(name).recruits.clear();
  cluster.Run(absl::Seconds(5));
  for (const auto& [name, shard] : cluster.shards().all()) {
    EXPECT_THAT(shard.recruits, ::testing::IsEmpty()) << name;
  }
  EXPECT_THAT(cluster.Problems(),
              ::testing::Contains(AllOf(HasSubstr("spare"), HasSubstr("shard remove spare"))));
  EXPECT_THAT(cluster.core().RemoveShard(request), StatusIs(StatusCode::kAborted)) << "it is asked again";
  cluster.shards().Deliver();
  EXPECT_THAT(cluster.core().RemoveShard(request), IsOk());
}

TEST(RemovalTest, AShardThatIsGoneIsRemovedAndItsFolderRefused) {
  TestCluster cluster(1, {.ring_bits = 3, .new_cluster = kCluster});
  cluster.JoinShards();
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "gone"), IsOk());
  const uint32_t number = cluster.shards().at("gone").id;
  cluster.shards().at("gone").up = false;
  cluster.Run(absl::Seconds(4));
  v1::RemoveShardRequest request;
  request.set_shard("gone");
  const auto removed = cluster.core().RemoveShard(request);
  ASSERT_THAT(removed, IsOk());
  EXPECT_FALSE(removed->emptied());
  v1::JoinClusterRequest back;
  back.set_feature_level(1);
  back.set_name("gone");
  back.set_address("host:1");
  back.set_nonce(9);
  back.mutable_folder()->set_cluster(kCluster);
  back.mutable_folder()->set_shard(number);
  EXPECT_THAT(cluster.core().JoinCluster(back),
              StatusIs(StatusCode::kFailedPrecondition, AllOf(HasSubstr("was removed"), HasSubstr("empty"))));
}

}  // namespace
}  // namespace paceline::coordinator
