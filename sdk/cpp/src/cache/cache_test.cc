// The rows that the cache keeps, and those that it hands out.
#include "sdk/cpp/src/cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "sdk/cpp/src/testing/cache_harness.h"

namespace paceline::sdk {
namespace {

using testing::Bytes;
using testing::Certified;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::Grouped;
using ::testing::IsEmpty;
using testing::kRingBits;
using testing::MakeRanged;
using testing::TheRoutes;

struct CacheTest : ::testing::Test, testing::CacheHarness {
  using CacheHarness::CacheHarness;
};

TEST_F(CacheTest, ARowServesAsLongAsItsMinClockMeetsTheBound) {
  Serve(add, 7, Certified(segment, 10, 5), 1.5f);
  EXPECT_EQ(Read(add, 7, {.min_clock = 4}), 1.5f);
  EXPECT_EQ(Read(add, 7, {.min_clock = 5}), 1.5f);
  EXPECT_EQ(Read(add, 7, {.min_clock = 6}), std::nullopt);
  EXPECT_EQ(Read(add, 8, {.min_clock = 0}), std::nullopt);
  EXPECT_EQ(Read(sgd, 7, {.min_clock = 0}), std::nullopt);
}

TEST_F(CacheTest, AnExactReadTakesThatClockOnly) {
  Serve(folded, 7, Certified(SegmentOf(folded, 7), 10, 5), 1);
  EXPECT_EQ(Read(folded, 7, {.min_clock = 4, .exact = true}), std::nullopt);
  EXPECT_EQ(Read(folded, 7, {.min_clock = 5, .exact = true}), 1);
  EXPECT_EQ(Read(folded, 7, {.min_clock = 6, .exact = true}), std::nullopt);
}

struct TrialTest : CacheTest {
  static constexpr uint64_t kTrial = 16;
  static constexpr uint64_t kMaxRest = kTrial * 16;  // of the first trial that fails
  TrialTest() : CacheTest(1 << 20, kTrial) {}

  // A table that is not sampled after a rest, but kept.
  const TableInfo kept = [] {
    TableInfo table = testing::MakeTable(1, table::Add{});
    table.consistency = Ssp{.refresh = true};
    return table;
  }();

  // Reads a row that is here and too old until the table rests.
  void Fail(const TableInfo& table, uint64_t key) {
    for (uint64_t i = 0; i < kTrial; ++i) EXPECT_EQ(Read(table, key, {.min_clock = 6}), std::nullopt);
  }
};

TEST_F(TrialTest, ATableWhoseRowsAreAlwaysTooOldRestsAndTriesAgain) {
  Serve(kept, 7, Certified(segment, 10, 5), 1);
  EXPECT_TRUE(cache.Wants(kept, 1));
  Fail(kept, 7);
  EXPECT_FALSE(cache.Has(kept));
  EXPECT_EQ(cache.bytes(), 0);
  Serve(kept, 7, Certified(segment, 11, 9), 2);
  EXPECT_FALSE(cache.Has(kept)) << "a pull that was under way brought rows back";
  uint64_t passed = 0;
  while (!cache.Wants(kept, 1)) ASSERT_LE(++passed, kMaxRest);
  EXPECT_GE(passed, kTrial);
  Serve(kept, 7, Certified(segment, 12, 9), 3);
  EXPECT_EQ(Read(kept, 7, {.min_clock = 9}), 3);
}

TEST_F(TrialTest, RestsGrowWithEachTrialThatFails) {
  uint64_t before = 0;
  for (int trial = 0; trial < 3; ++trial) {
    Serve(kept, 7, Certified(segment, 10, 5), 1);
    Fail(kept, 7);
    uint64_t passed = 0;
    while (!cache.Wants(kept, 1)) ++passed;
    EXPECT_GE(passed, 2 * before);
    before = passed;
  }
}

TEST_F(TrialTest, RowsThatAreReadAgainStay) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  for (uint64_t i = 0; i < 10 * kTrial; ++i) {
    EXPECT_EQ(Read(add, 7, {.min_clock = i % 4 == 0 ? Clock{5} : Clock{6}}).has_value(), i % 4 == 0);
  }
  EXPECT_TRUE(cache.Has(add));
}

TEST_F(TrialTest, RowsThatWereNeverReadBeforeDecideNothing) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  for (uint64_t key = 100; key < 100 + 10 * kTrial; ++key) EXPECT_EQ(Read(add, key, {}), std::nullopt);
  EXPECT_TRUE(cache.Has(add));
}

TEST_F(TrialTest, OtherTablesStayInTheCache) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 10, 5), 2);
  Fail(add, 7);
  EXPECT_FALSE(cache.Has(add));
  EXPECT_EQ(Read(sgd, 7, {.min_clock = 5}), 2);
}

// An answer that was under way when the table came to rest, and comes when it is tried again.
TEST_F(TrialTest, APushWhileATableRestsIsMissedInNoRow) {
  Serve(kept, 7, Certified(segment, 10, 5), 1);
  cache.OnPullBegun(kept);
  Fail(kept, 7);
  Push(kept, {7}, {1}, 1);
  while (!cache.Wants(kept, 1)) {
  }
  Serve(kept, 7, Certified(segment, 11, 9, /*own=*/0), 1);
  EXPECT_EQ(Read(kept, 7, {}), std::nullopt);
  Serve(kept, 7, Certified(segment, 12, 9, /*own=*/1), 2);
  EXPECT_EQ(Read(kept, 7, {}), 2);
  cache.OnPullEnded(kept);
}

TEST_F(CacheTest, APushIsAppliedWhereTheRuleAddsUp) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  Push(add, {7}, {0.25f}, 1);
  EXPECT_EQ(Read(add, 7, {}), 1.25f);
  const SegmentId at = SegmentOf(sgd, 7);
  Serve(sgd, 7, Certified(at, 10, 5), 1);
  Push(sgd, {7}, {0.5f}, 2);
  EXPECT_EQ(Read(sgd, 7, {}), 0.75f);
}

TEST_F(CacheTest, KeysThatComeTwiceInAPartAreSummedFirst) {
  // In another order of addition the small ones would be lost.
  Serve(add, 7, Certified(segment, 10, 5), 1e8f);
  Push(add, {7, 7, 7}, {4, 4, 4}, 1);
  EXPECT_EQ(Read(add, 7, {}), 1e8f + 12);
  EXPECT_NE(1e8f + 12, ((1e8f + 4) + 4) + 4);
}

TEST_F(CacheTest, UnderOtherRulesAPushMakesARowUnfitUntilItIsCertified) {
  const SegmentId at = SegmentOf(assign, 7);
  Serve(assign, 7, Certified(at, 10, 5, /*own=*/3), 1);
  Push(assign, {7}, {2}, 4);
  EXPECT_EQ(Read(assign, 7, {}), std::nullopt);
  EXPECT_EQ(Read(assign, 7, {.own_writes = false}), 1);
  Serve(assign, 7, Certified(at, 11, 6, /*own=*/3), 1);
  EXPECT_EQ(Read(assign, 7, {}), std::nullopt);
  Serve(assign, 7, Certified(at, 12, 6, /*own=*/4), 2);
  EXPECT_EQ(Read(assign, 7, {}), 2);
}

TEST_F(CacheTest, AnAnswerThatLacksAPushDoesNotReplaceARow) {
  Serve(add, 7, Certified(segment, 10, 5, 0), 1);
  Push(add, {7}, {1}, 1);
  Serve(add, 7, Certified(segment, 20, 9, 0), 50);
  EXPECT_EQ(Read(add, 7, {}), 2);
  EXPECT_EQ(Read(add, 7, {.min_clock = 6}), std::nullopt);
  Serve(add, 7, Certified(segment, 21, 9, 1), 51);
  EXPECT_EQ(Read(add, 7, {.min_clock = 6}), 51);
}

TEST_F(CacheTest, AnAnswerThatLacksAPushDoesNotMakeARow) {
  cache.OnPullBegun(add);
  Push(add, {7}, {1}, 1);
  Serve(add, 7, Certified(segment, 10, 5, 0), 1);
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
  // Of another key of the segment it does.
  uint64_t other = 8;
  while (SegmentOf(add, other) != segment) ++other;
  Serve(add, other, Certified(segment, 10, 5, 0), 3);
  EXPECT_EQ(Read(add, other, {}), 3);
  cache.OnPullEnded(add);
}

TEST_F(CacheTest, PushedKeysAreForgottenWithoutAPullUnderWay) {
  cache.OnPullBegun(add);
  cache.OnPullEnded(add);
  Push(add, {7}, {1}, 1);
  EXPECT_EQ(cache.rows(), 0u);
}

TEST_F(CacheTest, AnOlderAnswerDoesNotReplaceANewerOne) {
  Serve(add, 7, Certified(segment, 10, 5), 2);
  Serve(add, 7, Certified(segment, 9, 4), 1);
  EXPECT_EQ(Read(add, 7, {}), 2);
}

TEST_F(CacheTest, PushesDoNotTouchAggregatedTables) {
  const SegmentId at = SegmentOf(folded, 7);
  Serve(folded, 7, Certified(at, 10, 5), 1);
  Push(folded, {7}, {1}, 1);
  EXPECT_EQ(Read(folded, 7, {}), 1);
  Serve(folded, 7, Certified(at, 11, 6, 0), 3);
  EXPECT_EQ(Read(folded, 7, {}), 3);
}

TEST_F(CacheTest, ARefusedPushIsUndone) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  const auto batch = Grouped(add, {7}, {1});
  cache.OnPush(add, *batch, batch->pieces[0], 1);
  cache.OnDropped(add, *batch, batch->pieces[0], 1);
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
  Serve(add, 7, Certified(segment, 11, 5, 1), 1);
  EXPECT_EQ(Read(add, 7, {}), 1);
}

TEST_F(CacheTest, UpdatesThatAreNotFiniteAreNotApplied) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  Push(add, {7}, {std::numeric_limits<float>::quiet_NaN()}, 1);
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
}

TEST_F(CacheTest, VersionsBeyondWhereTheNextEpochBeganAreVoid) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  uint64_t other = 8;
  while (SegmentOf(add, other) != segment) ++other;
  Serve(add, other, Certified(segment, 12, 5), 2);
  ASSERT_EQ(Read(add, 7, {}), 1);
  ASSERT_EQ(Read(add, other, {}), 2);
  cache.Learn(Certified(segment, 20, 5, 0, /*epoch=*/2, /*began=*/11));
  EXPECT_EQ(Read(add, 7, {}), 1);
  EXPECT_EQ(Read(add, other, {}), std::nullopt);
  // A late answer of the epoch before is judged alike.
  Serve(add, other, Certified(segment, 12, 5), 2);
  EXPECT_EQ(Read(add, other, {}), std::nullopt);
  Serve(add, other, Certified(segment, 11, 5), 3);
  EXPECT_EQ(Read(add, other, {}), 3);
}

TEST_F(CacheTest, AMissedEpochVoidsAllOlderRows) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  ASSERT_EQ(Read(add, 7, {}), 1);
  cache.Learn(Certified(segment, 20, 5, 0, /*epoch=*/3, /*began=*/15));
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
}

TEST_F(CacheTest, UntilItIsKnownWhereAnEpochBeganNothingOlderIsHandedOut) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  ASSERT_EQ(Read(add, 7, {}), 1);
  v1::Map map = FakeCluster(kRingBits, 2).Map();
  map.mutable_segments(static_cast<int>(segment.v))->set_epoch(2);
  cache.Learn(wire::MapFromProto(map).value());
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
  cache.Learn(Certified(segment, 11, 5, 0, /*epoch=*/2, /*began=*/10));
  EXPECT_EQ(Read(add, 7, {}), 1);
}

TEST_F(CacheTest, TheVoidIsSharedByAllTables) {
  const SegmentId at = SegmentOf(sgd, 7);
  Serve(sgd, 7, Certified(at, 10, 5), 1);
  uint64_t other = 1;
  while (SegmentOf(add, other) != at) ++other;
  Serve(add, other, Certified(at, 3, 5, 0, /*epoch=*/2, /*began=*/2), 1);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
}

TEST_F(CacheTest, RangesAreReadRowByRow) {
  const TableInfo ranged = MakeRanged(5, 1000, 32);
  const auto batch = GroupRange(*TheRoutes(), ranged.placement, 32, 10, 3, {}, AllocateFresh);
  ASSERT_EQ(batch->pieces.size(), 1u);
  std::vector<float> values(3 * 32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto certificate = Certified(batch->pieces[0].segment, 10, 5);
  cache.Learn(certificate);
  cache.OnServed(ranged, *batch, batch->pieces[0], certificate, Bytes(values));
  std::vector<float> out(5 * 32, -1);
  std::vector<uint32_t> missing;
  ClockCounts hits;
  cache.ReadRange(ranged, {.min_clock = 5}, 9, 0, 5, out.data(), missing, hits);
  EXPECT_THAT(missing, ElementsAre(0, 4));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), out.begin() + 32));
  EXPECT_THAT(hits.counts(), ElementsAre(std::pair(Clock{5}, uint64_t{3})));

  // A range that is longer than all there is in the cache.
  const std::vector<float> ones(100 * 32, 1.0f);
  const auto push = GroupRange(*TheRoutes(), ranged.placement, 32, 0, 100, ones, AllocateFresh);
  for (const Batch::Piece& piece : push->pieces) cache.OnPush(ranged, *push, piece, 1);
  missing.clear();
  cache.ReadRange(ranged, {.min_clock = 5}, 10, 0, 3, out.data(), missing, hits);
  EXPECT_THAT(missing, IsEmpty());
  EXPECT_EQ(out[0], values[0] + 1);
  EXPECT_EQ(out[3 * 32 - 1], values.back() + 1);
}

struct OffTest : CacheTest {
  OffTest() : CacheTest(0) {}
};
TEST_F(OffTest, WithoutRoomNoRowIsKept) {
  cache.OnPullBegun(add);
  Serve(add, 7, Certified(segment, 10, 5), 1);
  Push(add, {7}, {1}, 1);
  cache.OnPullEnded(add);
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
  EXPECT_EQ(cache.bytes(), 0u);
}

struct SmallTest : CacheTest {
  SmallTest() : CacheTest(1400) {}  // of ten rows
};
TEST_F(SmallTest, RowsThatAreReadStayAndOldOnesGoFirst) {
  for (uint64_t key = 1; key <= 1000; ++key) {
    Serve(add, key, Certified(SegmentOf(add, key), 10, key == 1 ? 9 : 5), 1);
    ASSERT_EQ(Read(add, 1, {.min_clock = 5}), 1) << "after " << key;
    ASSERT_LE(cache.bytes(), 1400u);
  }
  EXPECT_GE(cache.rows(), 5u);
  // The others become too old to be read, so among the newest the rows in use go, not the new ones.
  EXPECT_EQ(Read(add, 1, {.min_clock = 9}), 1);
  for (uint64_t key = 2001; key <= 2000 + cache.rows() - 1; ++key) {
    Serve(add, key, Certified(SegmentOf(add, key), 20, 9), 1);
    ASSERT_EQ(Read(add, key, {.min_clock = 9}), 1);
  }
  EXPECT_EQ(Read(add, 1, {.min_clock = 9}), 1);
  EXPECT_EQ(Read(add, 2001, {.min_clock = 9}), 1);
}

TEST_F(SmallTest, ALateAnswerThatLacksAPushDoesNotRestoreAnEvictedRow) {
  cache.OnPullBegun(add);
  Serve(add, 7, Certified(segment, 10, 5), 1);
  Push(add, {7}, {1}, 1);
  for (uint64_t key = 100; key < 200; ++key) Serve(add, key, Certified(SegmentOf(add, key), 10, 5), 1);
  ASSERT_EQ(Read(add, 7, {}), std::nullopt);
  Serve(add, 7, Certified(segment, 11, 5, 0), 1);
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
  Serve(add, 7, Certified(segment, 12, 5, 1), 2);
  EXPECT_EQ(Read(add, 7, {}), 2);
}

TEST_F(SmallTest, NorDoesOneOfALaterEpochReplaceTheRowThatHoldsThePush) {
  cache.OnPullBegun(add);
  Serve(add, 7, Certified(segment, 10, 5), 1);
  Push(add, {7}, {1}, 1);
  for (uint64_t key = 100; key < 200; ++key) Serve(add, key, Certified(SegmentOf(add, key), 10, 5), 1);
  Serve(add, 7, Certified(segment, 12, 5, 1), 2);
  ASSERT_EQ(Read(add, 7, {}), 2);
  // The primary was replaced before the push was replicated. The old pull is answered, the push comes later.
  Serve(add, 7, Certified(segment, 12, 5, 0, /*epoch=*/2, /*began=*/11), 1);
  EXPECT_EQ(Read(add, 7, {}), std::nullopt);
  Serve(add, 7, Certified(segment, 13, 5, 1, 2, 11), 2);
  EXPECT_EQ(Read(add, 7, {}), 2);
}

}  // namespace
}  // namespace paceline::sdk
