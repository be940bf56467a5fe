#include "services/shard/metrics.h"

#include <map>

#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using ::testing::Contains;
using ::testing::Key;

// A page that keeps its samples: "name{label=value}" and value.
class Shown : public metrics::Families {
 public:
  void Gauge(const std::string& name, const std::string&, double value,
             const metrics::Labels& labels) override {
    values[Named(name, labels)] = value;
  }
  void Counter(const std::string& name, const std::string&, double value,
               const metrics::Labels& labels) override {
    values[Named(name, labels)] = value;
  }
  std::map<std::string, double> values;

 private:
  static std::string Named(std::string name, const metrics::Labels& labels) {
    for (const auto& [label, value] : labels) name += "{" + label + "=" + value + "}";
    return name;
  }
};

using MetricsTest = ShardTest;

TEST_F(MetricsTest, AShardWithoutReplicasHasNeitherLagNorLease) {
  push.Start();
  push.Send(Push(1));
  Shown page;
  ShowShard(page, shard);
  EXPECT_EQ(page.values["paceline_shard_rows"], 1);
  EXPECT_EQ(page.values["paceline_shard_segments{role=primary}"], 2);
  for (const char* zero :
       {"paceline_shard_segments{role=replica}", "paceline_shard_segments{role=learner}",
        "paceline_shard_segments{role=lost}", "paceline_shard_primaries_not_answering",
        "paceline_shard_learners_taught", "paceline_shard_unreplicated_records",
        "paceline_shard_unreplicated_bytes", "paceline_shard_pending_acks", "paceline_shard_log_bytes",
        "paceline_shard_lease_seconds", "paceline_shard_primaries_gained_total",
        "paceline_shard_primaries_given_up_total", "paceline_shard_handovers_begun_total",
        "paceline_shard_fences_total{answer=fenced}", "paceline_shard_fences_total{answer=refused}"}) {
    ASSERT_THAT(page.values, Contains(Key(zero)));
    EXPECT_EQ(page.values[zero], 0) << zero;
  }
}

TEST_F(MetricsTest, RoomIsThatOfTheFolder) {
  Shown page;
  ShowShard(page, shard, ::testing::TempDir());
  EXPECT_GT(page.values["paceline_shard_disk_size_bytes"], 0);
  EXPECT_LE(page.values["paceline_shard_disk_free_bytes"], page.values["paceline_shard_disk_size_bytes"]);
  Shown without;
  ShowShard(without, shard);
  ShowShard(without, shard, "/no/such/folder");
  EXPECT_FALSE(without.values.contains("paceline_shard_disk_size_bytes"));
}

TEST_F(MetricsTest, ASegmentThatMovedAwayIsCountedAsGivenUp) {
  v1::InstallRequest away = MapOf(2, 1, /*epoch=*/2);
  away.mutable_map()->mutable_segments(0)->mutable_primary()->set_shard(1);
  v1::ShardInfo* other = away.mutable_map()->add_shards();
  other->set_shard(1);
  other->set_name("shard-1");
  other->set_address("127.0.0.1:2");
  other->set_incarnation(1);
  ASSERT_THAT(shard.Install(away), IsOk());
  Shown page;
  ShowShard(page, shard);
  EXPECT_EQ(page.values["paceline_shard_segments{role=primary}"], 1);
  EXPECT_EQ(page.values["paceline_shard_primaries_given_up_total"], 1);
  EXPECT_EQ(page.values["paceline_shard_primaries_gained_total"], 0);
}

TEST_F(MetricsTest, FencesAreCountedByAnswer) {
  v1::FenceRequest request;
  request.add_segments()->set_epoch(2);
  request.add_segments()->set_segment(1);
  shard.Fence(request, [](absl::StatusOr<v1::FenceReply> reply) { EXPECT_THAT(reply, IsOk()); });
  Shown page;
  ShowShard(page, shard);
  EXPECT_EQ(page.values["paceline_shard_fences_total{answer=fenced}"], 0);
  EXPECT_EQ(page.values["paceline_shard_fences_total{answer=refused}"], 2) << "a primary is no replica";
}

}  // namespace
}  // namespace paceline::shard
