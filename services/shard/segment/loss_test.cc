// Which segments a shard says are lost.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

TEST_F(ShardTest, MovedAndLostSegmentsAreRefusedDifferently) {
  Shard other({}, clock, probe);
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(2)});  // a later start of the same shard
  v1::InstallRequest request = MapOf(1, 1);
  ASSERT_THAT(other.Install(request), IsOk());
  PushWire wire(other.NewPushStream());
  wire.Start();
  wire::Frame<v1::PushRequest> empty;
  empty.head.set_line(v1::LINE_ARRIVAL);
  empty.head.set_parts(Part(0, 0, 1));
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().at(0).reason(), v1::Refusal::DATA_LOSS);
  EXPECT_THAT(wire.Refusals().at(0).message(), HasSubstr("acknowledged data is gone"));
  empty.head.set_parts(Part(0, 0, 1, /*epoch=*/2));
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::UNAVAILABLE) << "its map is behind the sender's";
}

TEST_F(ShardTest, ALossWithAllReplicasIsToldOnceTheMapSaysSo) {
  Shard other({}, clock, probe);
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(2)});
  const auto map = [this](uint64_t version, bool lost) {
    v1::InstallRequest request = MapOf(version, 1);
    v1::ShardInfo& replica = *request.mutable_map()->add_shards();
    replica.set_shard(7);
    replica.set_name("shard-7");
    replica.set_address("127.0.0.1:7007");
    replica.set_incarnation(9);
    for (v1::SegmentConfig& segment : *request.mutable_map()->mutable_segments()) {
      segment.add_replicas()->set_shard(7);
      segment.mutable_replicas(0)->set_incarnation(lost ? 8 : 9);
      segment.set_lost(lost);
    }
    return request;
  };
  ASSERT_THAT(other.Install(map(2, false)), IsOk());
  PushWire wire(other.NewPushStream());
  wire.Start();
  wire::Frame<v1::PushRequest> empty;
  empty.head.set_line(v1::LINE_ARRIVAL);
  empty.head.set_parts(Part(0, 0, 1));
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_THAT(wire.Refusals().back().message(), HasSubstr("a replica is taking over"));
  ASSERT_THAT(other.Install(map(3, true)), IsOk());
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::DATA_LOSS);
  EXPECT_THAT(wire.Refusals().back().message(), HasSubstr("acknowledged data is gone"));
  ASSERT_THAT(other.Install(map(4, false)), IsOk());
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::UNAVAILABLE) << "another folder turned up";
  // Recovery asks the disks, which fences the members, before the map says that they have nothing.
  v1::FenceRequest fence;
  fence.mutable_target()->set_incarnation(2);
  v1::FenceRequest::Segment& one = *fence.add_segments();
  one.set_epoch(2);
  one.set_restored(true);
  bool fenced = false;
  other.Fence(fence, [&](const absl::StatusOr<v1::FenceReply>& reply) {
    ASSERT_THAT(reply.status(), IsOk());
    fenced = reply->segments(0).fenced();
  });
  ASSERT_TRUE(fenced);
  ASSERT_THAT(other.Install(map(5, true)), IsOk());
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::DATA_LOSS);
  ASSERT_THAT(other.Install(map(6, false)), IsOk());
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::UNAVAILABLE);
}

}  // namespace
}  // namespace paceline::shard
