#include "libs/log/change_tracker.h"

#include <array>

#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

class ChangeTrackerTest : public ::testing::Test {
 protected:
  void Push(uint64_t key, float value) {
    const Update update = MakeUpdate(SessionId(7), ++number, {{key, value}});
    tracker.Apply(update, segment, [&] { segment.Apply(update); });
  }
  // How many rows have changed since, with their keys and values in `keys` and `rows`.
  uint32_t Since(Lsn since) {
    uint32_t count = 0;
    Read read;
    read.table = SumTable(JobId(1));
    read.out = reinterpret_cast<std::byte*>(rows.data());
    read.changes = ChangesAsked{.since = since,
                                .rows_max = keys.size(),
                                .count = &count,
                                .keys = reinterpret_cast<std::byte*>(keys.data())};
    tracker.Answer(read, segment);
    return count;
  }

  Segment segment = SegmentWith(JobId(1), {SessionId(7)});
  ChangeTracker tracker;
  PartNumber number = 0;
  std::array<uint64_t, 2> keys = {};
  std::array<float, 2> rows = {};
};

TEST_F(ChangeTrackerTest, TellsRowsThatHaveChangedSinceTheFirstRequest) {
  Push(5, 1);
  EXPECT_EQ(Since(Lsn(1)), wire::kChangesUnknown) << "nobody had asked before";
  const Lsn asked = segment.version();
  EXPECT_EQ(Since(asked), 0u);
  Push(6, 2);
  Push(5, 0);
  EXPECT_EQ(Since(asked), 1u) << "an update that changes nothing is no change";
  EXPECT_EQ(keys[0], 6u);
  EXPECT_EQ(rows[0], 2.0f);
  EXPECT_EQ(Since(Lsn(segment.version().v + 1)), wire::kChangesUnknown) << "of another epoch";
}

TEST_F(ChangeTrackerTest, MoreRowsThanTheReaderTakesAreUnknown) {
  const Lsn asked = segment.version();
  Since(asked);
  for (uint64_t key = 0; key < 3; ++key) Push(key, 1);
  EXPECT_EQ(Since(asked), wire::kChangesUnknown);
}

TEST_F(ChangeTrackerTest, AnUnusedTableIsGivenUp) {
  const Lsn asked = segment.version();
  Since(asked);
  for (uint64_t i = 0; i < ChangeTracker::kUpdatesUnasked; ++i) Push(5, 1);
  EXPECT_EQ(Since(asked), 1u);
  for (uint64_t i = 0; i <= ChangeTracker::kUpdatesUnasked; ++i) Push(5, 1);
  EXPECT_EQ(Since(asked), wire::kChangesUnknown);
}

TEST_F(ChangeTrackerTest, AForgottenTableBeginsAnew) {
  const Lsn asked = segment.version();
  Since(asked);
  tracker.Forget(kSumTable);
  Push(5, 1);
  EXPECT_EQ(Since(asked), wire::kChangesUnknown);
}

TEST_F(ChangeTrackerTest, FoldsAreTrackedToo) {
  const auto folded = AggregatedTable(JobId(1));
  segment.Apply(OpenTable{folded});
  tracker.Track(kFoldedTable, segment.version());
  const Lsn begun = segment.version();
  Fold fold{.job = JobId(1), .clock = 0, .tables = {}, .numbers = {}};
  fold.tables.push_back({.table = kFoldedTable, .keys = {3, 9}, .values = {1, 0}});
  tracker.Apply(fold, segment, [&] { segment.Apply(fold); });
  const auto changed = tracker.Since(kFoldedTable, begun, UINT64_MAX);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(*changed, std::vector<uint64_t>({3})) << "a sum of 0 changes nothing";
}

// Moves are relative to the row, and each step counts.
TEST_F(ChangeTrackerTest, WeighsHowMuchRowsAreMoved) {
  tracker.Track(kSumTable, segment.version());
  Push(5, 10);
  EXPECT_EQ(tracker.Moved(kSumTable, 5), 0) << "nobody wants to know";
  tracker.Weigh(kSumTable);
  Push(5, 10);  // to 20
  EXPECT_EQ(tracker.Moved(kSumTable, 5), 0.5f);
  Push(5, -10);
  EXPECT_EQ(tracker.Moved(kSumTable, 5), 1);
  Push(6, 1e-6f);
  EXPECT_EQ(tracker.Moved(kSumTable, 6), 1) << "it was 0";
  Push(6, -2e-6f);
  EXPECT_EQ(tracker.Moved(kSumTable, 6), 3) << "to the opposite";
  tracker.Settle(kSumTable, segment.version());
  Push(5, 0);
  Push(5, 30);
  EXPECT_EQ(tracker.Moved(kSumTable, 5), 0.75f);
  EXPECT_EQ(tracker.Moved(kFoldedTable, 5), 0) << "it is not tracked";
}

TEST(ChangeTrackerCheckTest, OfRangedTablesNobodyIsTold) {
  table::Schema schema;
  EXPECT_TRUE(ChangeTracker::CheckTold(schema).ok());
  schema.aggregated = true;
  EXPECT_TRUE(ChangeTracker::CheckTold(schema).ok());
  EXPECT_FALSE(ChangeTracker::CheckTold({.kind = table::Kind::kRanged}).ok());
}

TEST(ChangeTrackerCheckTest, TellsNoChangesOfAggregatedAndRangedTables) {
  table::Schema schema;
  EXPECT_TRUE(ChangeTracker::Check(schema).ok());
  schema.aggregated = true;
  EXPECT_FALSE(ChangeTracker::Check(schema).ok());
  EXPECT_FALSE(ChangeTracker::Check({.kind = table::Kind::kRanged}).ok());
}

}  // namespace
}  // namespace paceline::log
