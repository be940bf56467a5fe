// Streams to shards that may be primary next.
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using testing::CoreHarness;
using testing::FakeCluster;
using testing::FakeStream;

// A client that has read of segment 0, of four shards that are primary of a segment each.
struct HeirsTest : ::testing::Test {
  HeirsTest() : h({.shards = 4}) {
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 2}, Asp{}).value();
    while (table->placement.Of(key) != SegmentId(0)) ++key;
    h.Pull(table, {key});
    h.Run();
  }
  const FakeStream* Dialed(uint32_t shard) const {
    return h.dialer.Newest(FakeCluster::AddressOf(shard), world::StreamKind::kPull).get();
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
  uint64_t key = 0;
};

TEST_F(HeirsTest, AReplicaIsDialedBeforeItIsPrimary) {
  h.cluster.AddReplica(0, 3);
  h.cluster.AddReplica(1, 2);
  h.coordinator.PublishMap();
  h.Run();
  const FakeStream* ahead = Dialed(3);
  ASSERT_NE(ahead, nullptr);
  EXPECT_EQ(Dialed(2), nullptr) << "nothing was read of its segment";
  h.cluster.Move(0, 3, false);
  h.coordinator.PublishMap();
  auto pull = h.Pull(table, {key});
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_EQ(Dialed(3), ahead);
}

TEST_F(HeirsTest, AReplicaThatCannotBeReachedIsDialedOnceAMap) {
  h.unreachable.insert(FakeCluster::AddressOf(3));
  h.cluster.AddReplica(0, 3);
  h.coordinator.PublishMap();
  h.Run();
  const size_t dialed = h.dialer.streams.size();
  h.PullStream(3).Break(absl::UnavailableError("connection refused"));
  h.Advance(absl::Seconds(10));
  EXPECT_EQ(h.dialer.streams.size(), dialed);
  h.unreachable.clear();
  h.cluster.Move(0, 3, false);
  h.coordinator.PublishMap();
  auto pull = h.Pull(table, {key});
  h.Run();
  ASSERT_TRUE(pull->status.has_value()) << "who has something to ask dials at once";
  EXPECT_THAT(*pull->status, IsOk());
}

}  // namespace
}  // namespace paceline::sdk
