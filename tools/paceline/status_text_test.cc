#include "tools/paceline/status_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace paceline::tool {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

v1::StatusReply Parse(const std::string& text) {
  v1::StatusReply reply;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &reply)) << text;
  return reply;
}

TEST(StatusTextTest, ShowsEverythingOfARunningCluster) {
  const v1::StatusReply reply = Parse(R"(
    version: "0.1.0" feature_level: 2 map_version: 3 segments: 64 shards_wanted: 2
    replicas_wanted: 1 segments_under_replicated: 32 takeovers: 8 handovers: 2
    shards {
      info { shard: 0 name: "shard-1" address: "127.0.0.1:4003" incarnation: 2 }
      alive: false silent_ms: 12300 replicas: 8
    }
    shards {
      info { shard: 1 name: "shard-0" address: "127.0.0.1:4001" incarnation: 1 }
      alive: true silent_ms: 200 primaries: 32 replicas: 24 learners: 8 metrics_address: "127.0.0.1:4002"
      last { rows: 1200 bytes: 1572864 bytes_budget: 4294967296 primaries: 32 parked: 3 }
    }
    jobs {
      job: 1 name: "ctr" min_clock: 40
      sessions { session: 5 client: "worker 0" state: "worker" rank: 0 clock: 42 silent_ms: 100 }
      sessions { session: 6 client: "worker 1" state: "worker" rank: 1 clock: 40 silent_ms: 900 }
      sessions { session: 7 client: "reader" state: "open" silent_ms: 0 }
    }
    tables {
      id: 1 job: 1 name: "weights"
      schema { kind: TABLE_KIND_SPARSE dim: 4 rule { adagrad {} } }
      bound_max: 16 bound: 4 rule_clock: 38 rule_change: 2
    }
    tables {
      id: 2 job: 1 name: "bias"
      schema { kind: TABLE_KIND_RANGED dim: 1 rows: 10 aggregated: true rule { add {} } }
    }
    problems: "shard-1 has been silent for 12.3 s; see whether its process runs")");
  EXPECT_EQ(
      StatusText(reply, "127.0.0.1:7070"),
      "Cluster at 127.0.0.1:7070, version 0.1.0: 1 of 2 shards alive, map version 3, 64 segments\n"
      "\nShards\n"
      "  SHARD    ADDRESS         STATE          PRIMARY  REPLICA  LEARNER  ROWS   MEMORY       OF  PARKED  "
      "METRICS\n"
      "  shard-0  127.0.0.1:4001  alive               32       24        8  1200  1.5 MiB  4.0 GiB       3  "
      "127.0.0.1:4002\n"
      "  shard-1  127.0.0.1:4003  silent 12.3 s        0        8        0     -        -        -       -  "
      "-\n"
      "\nReplicas: 1 wanted of each segment, 32 have fewer; so far 8 segments taken over, 2 handed over\n"
      "\nJob ctr: min clock 40\n"
      "  SESSION  STATE   RANK  CLOCK  AHEAD  SILENT  CLIENT\n"
      "        5  worker     0     42      2   0.1 s  worker 0\n"
      "        6  worker     1     40      0   0.9 s  worker 1\n"
      "        7  open       -      -      -   0.0 s  reader\n"
      "\nTables\n"
      "  TABLE    JOB  DIM  KEYS  RULE     UPDATES\n"
      "  weights  ctr    4   any  adagrad  on arrival\n"
      "  bias     ctr    1    10  add      once per clock\n"
      "  weights of ctr: bound 4 from clock 38 on, at most 16: it follows the waiting\n"
      "\nProblems\n"
      "  - shard-1 has been silent for 12.3 s; see whether its process runs\n");
}

TEST(StatusTextTest, CountsTheShardsThatAreStillToJoin) {
  const std::string text = StatusText(Parse(R"(version: "0.1.0" segments: 64 shards_wanted: 3)"), "c:1");
  EXPECT_THAT(text, HasSubstr("0 of 3 shards alive, map version 0"));
  EXPECT_THAT(text, EndsWith("\nNo problems.\n"));
}

TEST(StatusTextTest, ShowsWhatAShardTakesBesideItsRows) {
  const std::string text = StatusText(Parse(R"(
      version: "0.1.0" segments: 64
      shards {
        alive: true
        info { shard: 1 name: "shard-0" address: "a:1" }
        last {
          bytes: 104857600
          memory {
            resident: 209715200 staged: 1048576 log: 2097152 engine: 10485760 allocator: 20971520
            disk_queue: 1024
          }
        }
      })"),
                                      "c:1");
  EXPECT_THAT(text, HasSubstr("\nMemory\n"));
  EXPECT_THAT(text, HasSubstr("RESIDENT"));
  EXPECT_THAT(text, HasSubstr("200.0 MiB  100.0 MiB"));
  EXPECT_THAT(text, HasSubstr("20.0 MiB  67.0 MiB")) << "freed, and what is not known";
}

TEST(StatusTextTest, SaysThatAJobHasNoSession) {
  EXPECT_THAT(StatusText(Parse(R"(jobs { job: 1 name: "ctr" min_clock: 9 })"), "c:1"),
              HasSubstr("Job ctr: min clock 9\n  no session is open\n"));
}

TEST(StatusTextTest, ShowsHowFarAWorkQueueIs) {
  v1::WorkStatus work;
  work.set_name("train");
  work.mutable_spec()->set_examples(1000);
  work.mutable_spec()->set_per_item(10);
  work.mutable_spec()->set_passes(2);
  EXPECT_EQ(WorkText(work),
            "work train: 0.0 % of 2000 examples in 2 passes, 0 items with 0 workers, 0 begun");
  work.set_examples_done(500);
  work.set_items_held(40);
  work.set_holders(4);
  work.set_items_begun(4);
  work.set_examples_per_s(12.5);
  work.set_eta_ms(120'000);
  work.set_again_begun(7);
  work.set_again_perhaps(20);
  EXPECT_EQ(
      WorkText(work),
      "work train: 25.0 % of 2000 examples in 2 passes, 40 items with 4 workers, 4 begun, 12.5 examples/s, "
      "about 2 min 0 s left; at most 27 trained twice (7 of items begun, 20 of items that may have been)");
  work.set_examples_done(2000);
  work.set_again_begun(0);
  work.set_again_perhaps(0);
  EXPECT_EQ(WorkText(work), "work train: 100.0 % of 2000 examples in 2 passes, complete");
  v1::StatusReply reply = Parse(R"(jobs { job: 1 name: "ctr" min_clock: 9 })");
  *reply.mutable_jobs(0)->add_work() = work;
  EXPECT_THAT(StatusText(reply, "c:1"), HasSubstr("\n  work train: 100.0 % of 2000 examples"));
}

TEST(StatusTextTest, AStandbyShowsOnlyTheReason) {
  EXPECT_EQ(StatusText(Parse(R"(version: "0.1.0" standby: true problems: "etcd is away")"), "c:1,d:2"),
            "Cluster at c:1,d:2, version 0.1.0: no coordinator leads\n\nProblems\n  - etcd is away\n");
  EXPECT_THAT(StatusText(Parse(R"(version: "0.1.0" standby: true leader: "e:3")"), "c:1"),
              HasSubstr("the coordinator at e:3 was the last to lead, and does not answer"));
}

TEST(StatusTextTest, ShowsWhatMovesAndWhoDrains) {
  const std::string text = StatusText(Parse(R"(
    shards { info { name: "a" } alive: true drain { segments_left: 3 } }
    shards { info { name: "b" } alive: true drain { may_go: true } }
    moves { copies: 8 copies_left: 24 bytes_left: 2048 bytes_per_s: 1024 })"),
                                      "c:1");
  EXPECT_THAT(text, HasSubstr("alive, drains"));
  EXPECT_THAT(text, HasSubstr("alive, may go"));
  EXPECT_THAT(text,
              HasSubstr("\nMoves: 8 segments are being copied, 24 wait; 2.0 KiB left, 1.0 KiB a second: "
                        "about 3 s\n"));
}

TEST(StatusTextTest, BytesHaveTheirUnit) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace paceline::tool
