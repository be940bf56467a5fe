#include "tests/sim/truth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/ring/placement.h"
#include "libs/sim/scheduler.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {
namespace {

constexpr SessionId kReader{7};
constexpr uint64_t kKey = 24;
constexpr SegmentAndLine kWhere{0, Line::kArrival};

std::shared_ptr<const sdk::Routes> OneSegment() {
  const ring::Member member{.shard = ShardId(0), .incarnation = Incarnation(1)};
  auto map = ring::SegmentMap::Create(
      MapVersion(1), /*ring_bits=*/0, {{.epoch = Epoch(1), .primary = member, .replicas = {}}},
      {{.id = ShardId(0), .name = "shard-0", .address = "shard-0:1", .incarnation = Incarnation(1)}});
  return sdk::Routes::Of(*std::move(map));
}

// One session pushes to one key of a table that may be dropped, in a ring of one segment.
struct TruthTest : ::testing::Test {
  TruthTest() {
    truth.OnTable(kTable, JobId(1), Purpose::kScratch, /*mean=*/false);
    truth.Add(kReader, JobId(1), "worker-0").worker = true;
  }

  uint64_t Push(float value) {
    std::vector<float> row(kColumns);
    row[truth.Find(kReader)->column] = value;
    const auto batch = sdk::GroupKeys(*routes, table.placement, kColumns, {kKey}, row, sdk::AllocateFresh);
    return truth.OnPush(kReader, /*clock=*/3, table, *batch, /*valid=*/true);
  }
  // The bounds of a read that begins now.
  Bounds BoundsNow() {
    const TrueRead read{.reader = kReader,
                        .own_writes = true,
                        .min_clock = 4,
                        .table = kTable,
                        .keys = {kKey},
                        .made = truth.now()};
    return truth.BoundsOf(read, kKey, truth.Find(kReader)->column);
  }
  // An empty part is logged as this one.
  void LogEmpty(PartNumber number) {
    log::Update empty;
    empty.session = kReader;
    empty.line = Line::kArrival;
    empty.number = number;
    SegmentLedger ledger;
    ledger.sessions[kReader].applied.At(Line::kArrival) = number - 1;
    invariants.Once(ledger, SegmentId(0), empty);
    truth.OnEmptied(kReader, kWhere, number);
  }

  static constexpr TableId kTable{10};
  const std::shared_ptr<const sdk::Routes> routes = OneSegment();
  const sdk::TableInfo table{.id = kTable,
                             .name = "scratch",
                             .schema = {.dim = kColumns},
                             .placement = ring::Placement::Sparse(kTable, 0).value(),
                             .consistency = Asp{}};
  Scheduler scheduler;
  Verdict verdict{scheduler};
  Truth truth;
  Marks marks;
  Invariants invariants{verdict, truth, marks, 1};
};

// The push and a read that names it are under way when the table is dropped. The push is refused and its user
// told; the empty part that takes its number releases the read, which is served without it.
TEST_F(TruthTest, TheContentOfAnEmptiedPartIsNotPromised) {
  Push(5);
  const uint64_t refused = Push(9);
  EXPECT_EQ(BoundsNow().own, 14);
  truth.OnDropDecided(kTable);
  truth.OnRefused(kReader, refused);
  LogEmpty(2);
  truth.OnAcked(kReader, kWhere, 2);
  EXPECT_TRUE(verdict.ok());
  const Bounds bounds = BoundsNow();
  EXPECT_EQ(bounds.own, 5);
  EXPECT_EQ(bounds.acked, 5);
  EXPECT_EQ(bounds.clock, 5);
  EXPECT_EQ(bounds.most, 5) << "nor may it be seen";
}

TEST_F(TruthTest, PartsThatAreNotRefusedArePromised) {
  Push(5);
  truth.OnRefused(kReader, Push(9));
  truth.OnAcked(kReader, kWhere, 1);
  const Bounds bounds = BoundsNow();
  EXPECT_EQ(bounds.own, 14) << "a part of a refused push may be applied all the same";
  EXPECT_EQ(bounds.acked, 5);
}

TEST_F(TruthTest, NoPartIsEmptiedSilently) {
  Push(5);
  truth.OnDropDecided(kTable);
  LogEmpty(1);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.violations()[0].invariant, "Once");
}

TEST_F(TruthTest, NoPartOfATableThatLivesIsEmptied) {
  truth.OnRefused(kReader, Push(5));
  LogEmpty(1);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.violations()[0].invariant, "Once");
}

}  // namespace
}  // namespace paceline::sim
