#include "tools/paceline/lists.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace paceline::tool {
namespace {

v1::StatusReply TwoJobs() {
  v1::StatusReply reply;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    jobs {
      job: 1 name: "ctr" min_clock: 40 rows: 1200 bytes: 1572864
      sessions { session: 5 state: "worker" }
      sessions { session: 7 state: "open" }
    }
    jobs { job: 3 name: "news" deleting: true }
    tables { id: 1 job: 1 name: "weights"
             schema { kind: TABLE_KIND_SPARSE dim: 4 rule { sgd { learning_rate: 0.05 } } }
             rule_change: 2 rule_clock: 17 }
    tables { id: 4 job: 3 name: "weights" schema { kind: TABLE_KIND_RANGED dim: 1 rows: 10 rule { add {} } } })",
                                                            &reply));
  return reply;
}

TEST(ListsTest, JobsHaveALineEach) {
  EXPECT_EQ(JobsText(TwoJobs()),
            "  JOB   ID  SESSIONS  WORKERS  MIN CLOCK  TABLES  ROWS   MEMORY  STATE\n"
            "  ctr    1         2        1         40       1  1200  1.5 MiB  open\n"
            "  news   3         0        0          0       1     0      0 B  deleting\n");
  EXPECT_EQ(JobsText(v1::StatusReply()), "No jobs.\n");
}

TEST(ListsTest, TablesOfAllJobsOrOfOne) {
  const std::string heading = "  TABLE    ID  JOB   DIM  KEYS  UPDATES     RULE         SINCE CLOCK\n";
  EXPECT_EQ(TablesText(TwoJobs(), ""),
            heading +
                "  weights   1  ctr     4   any  on arrival  sgd lr=0.05           17\n"
                "  weights   4  news    1    10  on arrival  add                    -\n");
  EXPECT_THAT(TablesText(TwoJobs(), "news"), ::testing::Not(::testing::HasSubstr("ctr")));
  EXPECT_EQ(TablesText(TwoJobs(), "nobody"), "No tables.\n");
}

TEST(ListsTest, ATableIsFoundByItsJobAndName) {
  const v1::StatusReply status = TwoJobs();
  EXPECT_EQ(FindTable(status, "news", "weights")->id(), 4u);
  EXPECT_EQ(FindTable(status, "news", "bias"), nullptr);
  EXPECT_EQ(FindTable(status, "nobody", "weights"), nullptr);
}

TEST(HandOverTextTest, NamesSegmentsThatStayAndWhy) {
  v1::HandOverShardReply reply;
  reply.set_handed_over(21);
  EXPECT_EQ(HandOverText("shard-1", reply),
            "21 segments of shard-1 were handed over\nshard-1 is primary of no segment now\n");
  reply.add_kept("segments 3, 7: no replica");
  EXPECT_EQ(HandOverText("shard-1", reply),
            "21 segments of shard-1 were handed over\nThese stay with it:\n  - segments 3, 7: no replica\n");
}

TEST(DrainTextTest, SaysOfEachShardHowFarItIs) {
  v1::DrainShardsReply reply;
  for (const char* name : {"a", "b", "c", "d"}) reply.add_shards()->set_shard(name);
  reply.mutable_shards(0)->mutable_drain()->set_may_go(true);
  reply.mutable_shards(1)->mutable_drain()->set_segments_left(3);
  reply.mutable_shards(1)->mutable_drain()->set_bytes_left(1536);
  reply.mutable_shards(2)->mutable_drain()->set_waits_for("start more");
  EXPECT_EQ(DrainText(reply, {}),
            "a has nothing any more: it may go\n"
            "b drains: 3 segments left, 1.5 KiB\n"
            "c drains and waits: start more\n"
            "d does not drain\n");
}

TEST(LossTextTest, NamesSegmentsAndShards) {
  v1::RecoverSegmentsReply reply;
  EXPECT_EQ(LossText(reply), "");
  for (const uint32_t segment : {0u, 1u, 2u, 7u}) {
    auto& one = *reply.add_waiting();
    one.set_segment(segment);
    one.add_awaited("shard-1");
  }
  reply.mutable_waiting(1)->add_restarted("shard-0");
  EXPECT_EQ(
      LossText(reply),
      "segments 0, 2, 7: shard-1 had them and is awaited. Without it they begin empty, and the sessions of "
      "all jobs end\n"
      "segments 1: shard-1 is awaited. Without it they continue from the disk of shard-0, and what only "
      "shard-1 "
      "had is lost. If shard-0 has nothing, they begin empty, and the sessions of all jobs "
      "end\n");
  reply.Clear();
  auto& lost = *reply.add_waiting();
  lost.set_segment(5);
  lost.add_restarted("shard-2");
  lost.set_nothing_found(true);
  EXPECT_EQ(
      LossText(reply),
      "segments 5: no shard has them any more (shard-2 had); they begin empty, and the sessions of all jobs "
      "end\n");
}

}  // namespace
}  // namespace paceline::tool
