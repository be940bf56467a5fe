// Calls and streams that were meant for somebody else: addresses are used again, and ids begin at 1 in every
// cluster.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/testing.h"
#include "libs/wire/frame.h"
#include "libs/world/real_clock.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kCluster = 77;

class Port : public world::StreamPort {
 public:
  void Kick() override {}
  void Close(absl::Status) override {}
};

// Shard 3, incarnation 5 of cluster 77, primary of the one segment.
class MeantTest : public ::testing::Test {
 protected:
  void Identify() { shard.Identify({.shard = ShardId(3), .incarnation = Incarnation(5)}, kCluster); }

  static void Mean(uint32_t id, uint64_t incarnation, v1::Member& target) {
    target.set_shard(id);
    target.set_incarnation(incarnation);
  }
  static v1::InstallRequest MapOf(uint64_t version, uint64_t cluster) {
    v1::InstallRequest request;
    request.mutable_map()->set_version(version);
    request.mutable_map()->set_cluster(cluster);
    v1::SegmentConfig* segment = request.mutable_map()->add_segments();
    segment->set_epoch(1);
    Mean(3, 5, *segment->mutable_primary());
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_shard(3);
    info->set_name("shard-3");
    info->set_address("127.0.0.1:1");
    info->set_incarnation(5);
    Mean(3, 5, *request.mutable_target());
    return request;
  }
  static v1::Change Change(v1::Change::ActionCase action, uint64_t cluster) {
    v1::Change change = log::ChangeOf(action, SessionId(3), JobId(1));
    change.set_cluster(cluster);
    Mean(3, 5, *change.mutable_target());
    return change;
  }
  absl::StatusOr<v1::ChangeReply> Do(const v1::Change& change) {
    absl::StatusOr<v1::ChangeReply> outcome = absl::UnknownError("no answer");
    shard.MakeChange(change, [&](absl::StatusOr<v1::ChangeReply> reply) { outcome = std::move(reply); });
    return outcome;
  }
  // A pull stream's answer to the Hello.
  v1::PullReply Greet(const v1::Hello& hello) {
    const auto stream = shard.NewPullStream();
    stream->Attach(std::make_shared<Port>());
    v1::PullRequest request;
    *request.mutable_hello() = hello;
    stream->OnFrame(absl::Cord(request.SerializeAsString()));
    absl::Cord bytes;
    EXPECT_TRUE(stream->NextFrame(&bytes));
    stream->OnBroken(absl::OkStatus());
    return wire::Decode<v1::PullReply>(bytes).value().head;
  }
  static v1::Hello HelloTo(uint64_t cluster, uint32_t id, uint64_t incarnation) {
    v1::Hello hello;
    hello.set_feature_level(kFeatureLevel);
    hello.set_job(1);
    hello.set_session(3);
    hello.set_cluster(cluster);
    if (incarnation != 0) Mean(id, incarnation, *hello.mutable_target());
    return hello;
  }

  const world::RealClock clock;
  Probe probe;
  Shard shard{{.name = "shard-3"}, clock, probe};
};

TEST_F(MeantTest, AnotherClustersChangesAreRefusedByName) {
  Identify();
  ASSERT_THAT(shard.Install(MapOf(1, kCluster)), IsOk());
  ASSERT_EQ(Do(Change(v1::Change::kOpen, kCluster))->committed_size(), 1);
  EXPECT_THAT(
      Do(Change(v1::Change::kEvict, 8)),
      StatusIs(StatusCode::kFailedPrecondition, AllOf(HasSubstr("8 is meant"), HasSubstr("cluster 77"))));
  EXPECT_NE(shard.context().host(SegmentId(0)).primary()->segment().FindSession(SessionId(3)), nullptr);
  v1::Change earlier = Change(v1::Change::kEvict, kCluster);
  Mean(3, 4, *earlier.mutable_target());
  EXPECT_THAT(Do(earlier), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("incarnation 4 is meant")));
  Mean(2, 5, *earlier.mutable_target());
  EXPECT_THAT(Do(earlier), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("shard 2")));
  EXPECT_EQ(Do(Change(v1::Change::kEvict, 0))->committed_size(), 1) << "0: not stated";
}

// It is late, or its coordinator runs on an older copy of the store.
TEST_F(MeantTest, ARequestByAnOlderMapIsNotCarriedOut) {
  Identify();
  ASSERT_THAT(shard.Install(MapOf(2, kCluster)), IsOk());
  v1::Change open = Change(v1::Change::kOpen, kCluster);
  open.set_map_version(1);
  const auto refused = Do(open);
  ASSERT_THAT(refused, IsOk());
  EXPECT_EQ(refused->committed_size(), 0);
  EXPECT_EQ(refused->map_version(), 2u);
  ASSERT_EQ(refused->waits_size(), 1);
  EXPECT_THAT(refused->waits(0), HasSubstr("the call is of map version 1, shard-3 has 2"));
  EXPECT_EQ(shard.context().host(SegmentId(0)).primary()->segment().FindSession(SessionId(3)), nullptr);
  v1::Change drop;
  drop.mutable_subject()->set_kind(v1::Subject::TABLE);
  drop.mutable_subject()->set_id(7);
  drop.mutable_drop();
  drop.set_map_version(1);
  EXPECT_EQ(Do(drop)->committed_size(), 0);
  EXPECT_EQ(Do(drop)->map_version(), 2u);
  v1::EmptyFolderRequest empty;
  empty.set_map_version(1);
  absl::Status emptied = absl::UnknownError("no answer");
  shard.EmptyFolder(empty, [&](const auto& reply) { emptied = reply.status(); });
  EXPECT_THAT(emptied, StatusIs(StatusCode::kUnavailable, HasSubstr("map version 1")));
  EXPECT_FALSE(shard.view()->emptied);
  // By this map, by one that is still to come, and by a caller that names none.
  for (const uint64_t version : {2, 3, 0}) {
    open.mutable_subject()->set_id(10 + version);
    open.set_map_version(version);
    EXPECT_EQ(Do(open)->committed_size(), 1) << version;
    drop.mutable_subject()->set_id(10 + version);
    drop.set_map_version(version);
    EXPECT_EQ(Do(drop)->committed_size(), 1) << version;
  }
}

TEST_F(MeantTest, AnotherClustersMapIsRefusedByName) {
  EXPECT_THAT(shard.Install(MapOf(1, kCluster)), StatusIs(StatusCode::kUnavailable, HasSubstr("not joined")));
  Identify();
  EXPECT_THAT(shard.Install(MapOf(9, 8)), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("cluster")));
  EXPECT_EQ(shard.view()->map, nullptr);
  EXPECT_THAT(shard.Install(MapOf(1, kCluster)), IsOk());
}

TEST_F(MeantTest, AHelloForAnotherShardIsRefusedByName) {
  const auto refused = [&](const v1::Hello& hello, const std::string& names) {
    const v1::PullReply reply = Greet(hello);
    ASSERT_EQ(reply.refusals_size(), 1) << names;
    EXPECT_FALSE(reply.has_welcome());
    EXPECT_EQ(reply.refusals(0).reason(), v1::Refusal::UNAVAILABLE);
    EXPECT_THAT(reply.refusals(0).message(), HasSubstr(names));
  };
  refused(HelloTo(kCluster, 3, 5), "not joined");
  Identify();
  refused(HelloTo(8, 3, 5), "cluster 8 is meant");
  refused(HelloTo(kCluster, 2, 5), "shard 2");
  refused(HelloTo(kCluster, 3, 6), "incarnation 6 is meant");
  for (const v1::Hello& hello : {HelloTo(kCluster, 3, 5), HelloTo(kCluster, 3, 4), HelloTo(0, 0, 0)}) {
    const v1::PullReply reply = Greet(hello);
    EXPECT_EQ(reply.refusals_size(), 0) << hello.ShortDebugString();
    EXPECT_EQ(reply.welcome().cluster(), kCluster);
    EXPECT_EQ(reply.welcome().shard(), 3u);
  }
}

}  // namespace
}  // namespace paceline::shard
