// Snapshots loaded into a cluster in which nobody has worked: from when on their rows count as data.
#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/snapshots/test_snapshot_files.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using ::paceline::testing::IsOk;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint32_t kSegments = 8;

class SnapshotLoadsTest : public ::testing::Test {
 protected:
  // The name of a snapshot of a job with one table, or none, of another cluster.
  std::string Snapshot(bool table) {
    TestCluster other(2, {.ring_bits = 3, .snapshots = &files_});
    other.JoinShards();
    WriteSnapshotsTo(files_, other.shards());
    const uint64_t session = other.Opened("ctr");
    if (table) {
      EXPECT_THAT(other.OpenTable(session, "weights", SparseSchema()), IsOk());
    }
    v1::CreateSnapshotRequest request;
    request.set_job("ctr");
    Pending<v1::CreateSnapshotReply> created;
    other.core().CreateSnapshot(request, absl::InfiniteFuture(), created.done());
    other.Await(created);
    EXPECT_THAT(created.status(), IsOk());
    return created->snapshot().name();
  }

  Pending<v1::RestoreSnapshotReply> Restore(TestCluster& cluster, const std::string& snapshot) {
    v1::RestoreSnapshotRequest request;
    request.set_snapshot(snapshot);
    request.set_job("again");
    Pending<v1::RestoreSnapshotReply> restored;
    cluster.core().RestoreSnapshot(request, absl::InfiniteFuture(), restored.done());
    return restored;
  }

  // The segments that are loaded, as their present primaries know.
  static std::set<uint32_t> LoadedIn(TestCluster& cluster) {
    std::set<uint32_t> loaded;
    for (uint32_t segment = 0; segment < kSegments; ++segment) {
      if (cluster.shards().Segment(segment).loaded != 0) loaded.insert(segment);
    }
    return loaded;
  }

  FilesAtOnce files_;
};

// Rows that were loaded are as good as pushed ones, and so are the clocks of a job without tables.
TEST_F(SnapshotLoadsTest, LoadedRowsCountAsData) {
  for (const bool table : {true, false}) {
    const std::string snapshot = Snapshot(table);
    TestCluster cluster(2, {.ring_bits = 3, .snapshots = &files_});
    cluster.JoinShards();
    const auto restored = Restore(cluster, snapshot);
    cluster.Await(restored);
    ASSERT_THAT(restored.status(), IsOk());
    ASSERT_THAT(cluster.Restart(), IsOk());
    ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
    EXPECT_EQ(cluster.core().gauges().segments_lost, 4u);
    EXPECT_THAT(cluster.Problems(), Contains(HasSubstr("earlier start of shard-1")));
  }
}

// Nobody was told of the rows: shard-1 had loaded all of its own when it ended.
TEST_F(SnapshotLoadsTest, ALoadRepeatsForSegmentsThatBeginEmpty) {
  const std::string snapshot = Snapshot(/*table=*/true);
  for (const bool coordinator_too : {false, true}) {
    TestCluster cluster(2, {.ring_bits = 3, .snapshots = &files_});
    cluster.JoinShards();
    FakeShard& slow = cluster.shards().at("shard-0");
    for (uint32_t segment = 0; segment < kSegments; ++segment) {
      if (slow.IsPrimaryOf(segment)) slow.withheld.insert(segment);
    }
    const auto restored = Restore(cluster, snapshot);
    cluster.Run(absl::Seconds(1));
    ASSERT_FALSE(restored.answered());
    ASSERT_THAT(LoadedIn(cluster), SizeIs(4));
    if (coordinator_too) {
      ASSERT_THAT(cluster.Restart(), IsOk());
    }
    ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
    EXPECT_EQ(cluster.core().gauges().segments_lost, 0u);
    slow.withheld.clear();
    cluster.Run(absl::Seconds(10));
    EXPECT_EQ(restored.answered(), !coordinator_too);
    EXPECT_THAT(LoadedIn(cluster), SizeIs(kSegments));
    EXPECT_NE(cluster.Opened("again"), 0u);
  }
}

}  // namespace
}  // namespace paceline::coordinator
