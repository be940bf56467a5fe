#include "tools/paceline/top.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace paceline::tool {
namespace {

v1::StatusReply Uneven() {
  v1::StatusReply reply;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    version: "0.1.0" map_version: 3 segments: 64
    shards { info { shard: 2 name: "shard-2" } alive: true primaries: 3 }
    shards {
      info { shard: 0 name: "shard-0" } alive: true primaries: 30 last { bytes: 1048576 }
      load { pushed_per_s: 10 read_per_s: 20 bytes_per_s: 2048 busy_permille: 5
             segments { segment: 7 pushed_per_s: 10 read_per_s: 20 } }
    }
    shards {
      info { shard: 1 name: "shard-1" } alive: true primaries: 31 last { bytes: 2097152 } drain {}
      load { pushed_per_s: 9000 read_per_s: 9000 bytes_per_s: 1048576 busy_permille: 1255
             segments { segment: 3 pushed_per_s: 8000 read_per_s: 8000
                        keys { table: 1 key: 5 rows_per_s: 900 } keys { table: 9 key: 6 rows_per_s: 800 } }
             segments { segment: 4 pushed_per_s: 1000 read_per_s: 1000
                        keys { table: 1 key: 42 rows_per_s: 1500 error: 3 } } }
    }
    jobs { job: 1 name: "ctr" }
    tables { id: 1 job: 1 name: "emb" }
    moves { copies: 2 copies_left: 1 hand_overs: 3 bytes_left: 2048 }
    load { rows_per_s: 18030 peak_percent: 199 balances: true moved: 12
           too_hot { segment: 4 shard: 1 key { table: 1 key: 42 rows_per_s: 1500 error: 3 } } })",
                                                            &reply));
  return reply;
}

TEST(TopTest, TheHottestShardsAndTheirKeysComeFirst) {
  EXPECT_EQ(
      TopText(Uneven()),
      "Load: 18030 rows a second; the shard with most has 1.99 of the mean; 12 segments were moved by load\n"
      "  key 42 of table emb (segment 4, shard-1): 1500 rows a second are too many for any move: a key is at "
      "one "
      "shard; cache it, or split it\n"
      "\n"
      "  SHARD    STATE          PUSHED/S  READ/S  BYTES/S     BUSY   MEMORY  PRIMARIES  SEGMENTS: ROWS/S   "
      "KEYS: ROWS/S\n"
      "  shard-1  alive, drains      9000    9000  1.0 MiB  125.5 %  2.0 MiB         31  3: 16000, 4: 2000  "
      "emb/42: 1500, emb/5: 900, 9/6: 800\n"
      "  shard-0  alive                10      20  2.0 KiB    0.5 %  1.0 MiB         30  7: 30              "
      "-\n"
      "  shard-2  alive                 -       -        -        -      0 B          3  -                  "
      "-\n"
      "Moves: 2 segments are being copied, 1 wait; 2.0 KiB left; 3 segments are being handed over\n");
}

TEST(TopTest, JsonHasWhatHasToDoWithLoad) {
  const v1::StatusReply load = LoadOf(Uneven());
  EXPECT_EQ(load.shards_size(), 3);
  EXPECT_EQ(load.load().moved(), 12u);
  EXPECT_TRUE(load.has_moves());
  EXPECT_EQ(load.jobs_size(), 0);
}

}  // namespace
}  // namespace paceline::tool
