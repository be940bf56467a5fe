// Whether the cache keeps a table's rows: what it measures, what a sample finds, how soon it leaves a table
// and how rarely it tries one again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>
#include <vector>

#include "libs/ring/hash.h"
#include "libs/world/clock.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/testing/cache_harness.h"

namespace paceline::sdk {
namespace {

using testing::Bytes;
using testing::Certified;
using testing::Grouped;
using testing::MakeTable;

TEST(RowCostTest, MovesTowardsWhatIsMeasured) {
  RowCost cost(100, 1, 1000);
  for (int i = 0; i < 100; ++i) cost.Add(absl::Nanoseconds(64 * 40), 64);
  EXPECT_NEAR(cost.ns(), 40, 1);
}

TEST(RowCostTest, OneLongMeasurementChangesLittle) {
  RowCost cost(100, 1, 1e6);
  cost.Add(absl::Seconds(1), 64);
  EXPECT_LE(cost.ns(), 150);
}

TEST(RowCostTest, StaysWithinItsBounds) {
  RowCost cost(100, 50, 200);
  for (int i = 0; i < 100; ++i) cost.Add(absl::Seconds(1), 64);
  EXPECT_EQ(cost.ns(), 200);
  for (int i = 0; i < 100; ++i) cost.Add(absl::Nanoseconds(64), 64);
  EXPECT_EQ(cost.ns(), 50);
}

TEST(RowCostTest, WhatTookNoTimeSaysNothing) {
  RowCost cost(100, 1, 1000);
  cost.Add(absl::ZeroDuration(), 64);
  cost.Add(absl::Seconds(1), 0);
  EXPECT_EQ(cost.ns(), 100);
}

// Pulls that take 300 us, and 100 ns a row.
void AddPulls(PullCost& cost, std::initializer_list<uint64_t> rows, int times) {
  for (int i = 0; i < times; ++i) {
    for (const uint64_t n : rows) cost.Add(absl::Microseconds(300) + absl::Nanoseconds(100) * n, n);
  }
}

TEST(PullCostTest, FindsTheBaseAndWhatARowAdds) {
  PullCost cost;
  AddPulls(cost, {1'000, 50, 50, 60, 40}, 20);
  ASSERT_TRUE(cost.line().has_value());
  EXPECT_NEAR(cost.line()->row_ns, 100, 1);
  EXPECT_NEAR(cost.line()->base_ns, 300'000, 1'000);
}

TEST(PullCostTest, FewPullsOrPullsOfOneSizeShowNoLine) {
  PullCost few, alike;
  AddPulls(few, {1'000, 50}, 3);
  AddPulls(alike, {1'000, 1'010, 990}, 20);
  EXPECT_FALSE(few.line().has_value());
  EXPECT_FALSE(alike.line().has_value());
}

TEST(PullCostTest, OneLongPullChangesLittleAndIsForgotten) {
  PullCost cost;
  AddPulls(cost, {1'000, 50}, 100);
  for (const uint64_t rows : {50, 1'000}) {
    cost.Add(absl::Seconds(1), rows);
    EXPECT_NEAR(cost.line()->row_ns, 100, 20) << rows;
  }
  AddPulls(cost, {1'000, 50}, 1'000);
  EXPECT_NEAR(cost.line()->row_ns, 100, 1);
}

TEST(PullCostTest, PullsThatTakeLessTheMoreTheyBringCostNothingARow) {
  PullCost cost;
  for (int i = 0; i < 20; ++i) {
    cost.Add(absl::Microseconds(300), 10);
    cost.Add(absl::Microseconds(200), 1'000);
  }
  EXPECT_EQ(cost.line()->row_ns, 0);
}

// A table whose rows are never fit again, read in batches of 64 rows, of which a sample has two.
TEST(CacheTrialTest, ATableThatNeverPaysIsLeftAtOnceAndTriedRarely) {
  constexpr uint64_t kBatch = 64;
  constexpr uint64_t kAll = uint64_t{1} << 22;
  CacheTrial trial(kBatch);
  uint64_t kept = 0, sampled = 0;
  for (uint64_t rows = 0; rows < kAll; rows += kBatch) {
    if (trial.whole()) {
      kept += kBatch;
      trial.Looked(kBatch, 0, kBatch);
    } else if (trial.sampling()) {
      sampled += kBatch;
      trial.Looked(kBatch, 0, 2);
    } else {
      trial.Passed(kBatch);
    }
  }
  EXPECT_EQ(kept, kBatch);
  EXPECT_GT(sampled, 0u);
  EXPECT_LE(sampled, kAll / 100);
}

TEST(CacheTrialTest, ATableThatBeginsToPayIsFoundAndKept) {
  CacheTrial trial(64);
  trial.Looked(64, 0, 64);
  ASSERT_TRUE(trial.resting());
  uint64_t rows = 0;
  for (; !trial.whole() && rows < (1 << 20); rows += 64) {
    trial.resting() ? trial.Passed(64) : static_cast<void>(trial.Looked(64, 2, 0));
  }
  EXPECT_TRUE(trial.whole());
  EXPECT_LE(rows, 64 * 16 + 64 * 16u);
}

// Short trials would see only those reads that come again soon.
TEST(CacheTrialTest, FirstReadsOfASampleCountUntilHitsPayForThem) {
  CacheTrial paying(64), soon_only(64);
  for (CacheTrial* trial : {&paying, &soon_only}) {
    trial->Looked(64, 0, 64);
    while (trial->resting()) trial->Passed(64);
    trial->Looked(64, 16, 0, /*firsts=*/200);
    ASSERT_TRUE(trial->sampling()) << "not decided yet";
  }
  for (int i = 0; i < 3; ++i) paying.Looked(64, 16, 0);
  EXPECT_TRUE(paying.whole());
  for (int i = 0; i < 3; ++i) soon_only.Looked(64, 2, 14);
  EXPECT_TRUE(soon_only.resting());
}

// A trial whose look-ups, pushes and pulls were measured.
CacheTrial Measured(uint64_t rows) {
  CacheTrial trial(rows);
  for (int i = 0; i < 100; ++i) {
    trial.costs.look.Add(absl::Nanoseconds(64 * 45), 64);
    trial.costs.push.Add(absl::Nanoseconds(64 * 60), 64);
    trial.costs.keep.Add(absl::Nanoseconds(64 * 100), 64);
    // With what it takes to keep them.
    trial.Pulled(absl::Microseconds(300) + absl::Nanoseconds(200) * 1'000, 1'000);
    trial.Pulled(absl::Microseconds(300) + absl::Nanoseconds(200) * 60, 60);
  }
  return trial;
}

TEST(CacheTrialTest, AReadThatIsPulledInPartSavesWhatItsHitsAddToAPull) {
  CacheTrial still = Measured(1'000), pushed = Measured(1'000), all = Measured(1'000);
  for (CacheTrial* trial : {&still, &pushed, &all}) {
    trial->Looked(1'000, 900, 100);
    ASSERT_TRUE(trial->whole());
    trial->Looked(1'000, 900, 100);
  }
  still.Looked(1'000, 940, 60);
  EXPECT_TRUE(still.whole()) << "70 us, for 51";
  for (int trial = 0; trial < 3; ++trial) {
    ASSERT_TRUE(pushed.whole());
    pushed.Pushed(1'000);
    pushed.Looked(1'000, 940, 60);
  }
  EXPECT_TRUE(pushed.resting()) << "70 us, for 111; by the time of a row of small pulls it would stay";
  all.Pushed(1'000);
  all.Looked(1'000, 1'000, 0);
  EXPECT_TRUE(all.whole()) << "it saves the pull";
}

TEST(CacheTrialTest, FirstReadsCountUnlessTheyBecomeFewer) {
  CacheTrial fills(64), stays(64);
  for (uint64_t firsts = 10'000; firsts > 1; firsts = firsts * 9 / 10) {
    fills.Looked(firsts + 64, 32, 32, firsts);
    ASSERT_TRUE(fills.whole()) << firsts;
  }
  stays.Looked(1'064, 32, 32, /*firsts=*/1'000);
  ASSERT_TRUE(stays.whole()) << "at first all reads are first ones";
  stays.Looked(1'064, 32, 32, /*firsts=*/1'000);
  for (int trial = 0; trial < 3; ++trial) {
    ASSERT_TRUE(stays.whole()) << "it may fill slowly";
    stays.Looked(1'064, 32, 32, /*firsts=*/1'000);
  }
  EXPECT_TRUE(stays.resting());
}

TEST(CacheTrialTest, OneInSomePartialReadsIsPulledWhole) {
  CacheTrial trial = Measured(1 << 20), simulated(1 << 20);
  int whole = 0;
  for (int read = 0; read < 320; ++read) {
    whole += trial.TakeWholePull() ? 1 : 0;
    trial.Looked(10, 9, 1);
    trial.Looked(10, 10, 0);
    trial.Looked(10, 0, 10);
    simulated.Looked(10, 9, 1);
    EXPECT_FALSE(simulated.TakeWholePull()) << "no time is measured";
  }
  EXPECT_NEAR(whole, 320 / 16, 1);
}

TEST(CacheTrialTest, PushesCountAgainstTheCache) {
  CacheTrial still(64), pushed(64);
  for (CacheTrial* trial : {&still, &pushed}) {
    if (trial == &pushed) trial->Pushed(16 * 64);
    trial->Looked(64, 32, 32);
  }
  EXPECT_TRUE(still.whole());
  EXPECT_TRUE(pushed.resting());
}

TEST(CacheTrialTest, WhereBytesAreSavedTimeDoesNotCountButHitsDo) {
  const auto left_after = [](CacheTrial::Saves saves, uint64_t hits) {
    CacheTrial trial(64, /*samples=*/false, saves);
    for (int i = 0; i < 100; ++i) {
      trial.costs.look.Add(absl::Microseconds(64 * 400), 64);  // far more than fetching
      trial.costs.fetch.Add(absl::Microseconds(64), 64);
    }
    for (int i = 0; i < 100; ++i) trial.Looked(64, hits, 64 - hits);
    return !trial.whole();
  };
  EXPECT_TRUE(left_after(CacheTrial::Saves::kTime, 32));
  EXPECT_FALSE(left_after(CacheTrial::Saves::kBytes, 32));
  EXPECT_FALSE(left_after(CacheTrial::Saves::kBytes, 8));
  EXPECT_TRUE(left_after(CacheTrial::Saves::kBytes, 7));
}

// The cache of a client that measures by a clock of its own, of tables that are tried in few reads.
struct SamplingTest : ::testing::Test, testing::CacheHarness {
  static constexpr uint64_t kTrial = 16;
  SamplingTest() : CacheHarness(1 << 20, kTrial) {}

  // A key of `add` that is in a sample, or one that is not.
  static uint64_t KeyIn(bool sample, uint64_t from = 1) {
    const CacheSample all(CacheTrial(kTrial).one_in(), 1);
    while (all.Samples(from) != sample) ++from;
    return from;
  }
  // Makes the table rest, and then be sampled.
  void Sample() {
    Serve(add, 7, Certified(segment, 10, 5), 1);
    for (uint64_t i = 0; i < kTrial; ++i) EXPECT_EQ(Read(add, 7, {.min_clock = 6}), std::nullopt);
    EXPECT_FALSE(cache.Wants(add, 1));
    while (!cache.Wants(add, 1)) {
    }
  }
};

TEST_F(SamplingTest, WhileATableIsSampledNothingIsKeptOrFound) {
  Sample();
  const uint64_t key = KeyIn(true);
  Serve(add, key, Certified(SegmentOf(add, key), 10, 5), 1);
  EXPECT_FALSE(cache.Has(add));
  EXPECT_EQ(Read(add, key, {.min_clock = 5}), std::nullopt);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(SamplingTest, RowsAreKeptAgainOnceTheSampleFindsThem) {
  Sample();
  const uint64_t key = KeyIn(true);
  const SegmentId at = SegmentOf(add, key);
  Serve(add, key, Certified(at, 10, 5), 1);
  for (uint64_t i = 0; i < kTrial; ++i) cache.Foretell(add, {.min_clock = 5}, {key});
  Serve(add, key, Certified(at, 11, 6), 2);
  EXPECT_EQ(Read(add, key, {.min_clock = 6}), 2);
}

TEST_F(SamplingTest, RowsThatTheSampleFindsTooOldAreNotKept) {
  Sample();
  const uint64_t key = KeyIn(true);
  Serve(add, key, Certified(SegmentOf(add, key), 10, 5), 1);
  for (uint64_t i = 0; i < kTrial; ++i) cache.Foretell(add, {.min_clock = 6}, {key});
  EXPECT_FALSE(cache.Wants(add, 1)) << "it rests again";
}

TEST_F(SamplingTest, KeysOutsideOfTheSampleDecideNothing) {
  Sample();
  const uint64_t key = KeyIn(false);
  Serve(add, key, Certified(SegmentOf(add, key), 10, 5), 1);
  for (uint64_t i = 0; i < 4 * kTrial; ++i) cache.Foretell(add, {.min_clock = 6}, {key});
  Serve(add, key, Certified(SegmentOf(add, key), 11, 6), 1);
  EXPECT_TRUE(cache.Wants(add, 1));
  EXPECT_FALSE(cache.Has(add));
}

TEST_F(SamplingTest, UnderOtherRulesAPushMakesARowOfTheSampleUnfit) {
  const uint64_t key = KeyIn(true);
  const SegmentId at = SegmentOf(assign, key);
  Serve(assign, key, Certified(at, 10, 5), 1);
  for (uint64_t i = 0; i < kTrial; ++i) EXPECT_EQ(Read(assign, key, {.min_clock = 6}), std::nullopt);
  while (!cache.Wants(assign, 1)) {
  }
  Serve(assign, key, Certified(at, 11, 6), 1);
  Push(assign, {key}, {2}, 1);
  for (uint64_t i = 0; i < kTrial; ++i) cache.Foretell(assign, {.min_clock = 5}, {key});
  EXPECT_FALSE(cache.Wants(assign, 1)) << "it rests again";
}

// An answer that was under way while the table was sampled, and comes when its rows are kept again.
TEST_F(SamplingTest, APushDuringASampleIsMissedInNoRow) {
  Sample();
  const uint64_t key = KeyIn(true);
  const uint64_t other = KeyIn(false);
  cache.OnPullBegun(add);
  Push(add, {other}, {1}, 1);
  Serve(add, key, Certified(SegmentOf(add, key), 10, 5), 1);
  for (uint64_t i = 0; i < kTrial; ++i) cache.Foretell(add, {.min_clock = 5}, {key});
  Serve(add, other, Certified(SegmentOf(add, other), 11, 5, /*own=*/0), 1);
  EXPECT_EQ(Read(add, other, {}), std::nullopt);
  Serve(add, other, Certified(SegmentOf(add, other), 12, 5, /*own=*/1), 2);
  EXPECT_EQ(Read(add, other, {}), 2);
  cache.OnPullEnded(add);
}

TEST_F(SamplingTest, ATableOfFirstReadsOnlyIsSampled) {
  Serve(add, 7, Certified(segment, 10, 5), 1);
  for (uint64_t key = 100; key < 100 + 16 * kTrial; ++key) EXPECT_EQ(Read(add, key, {}), std::nullopt);
  EXPECT_FALSE(cache.Has(add));
  EXPECT_TRUE(cache.Wants(add, 1)) << "it does not rest";
}

// Lets some time pass with each look at it.
class TickingClock final : public world::Clock {
 public:
  explicit TickingClock(absl::Duration tick) : tick_(tick) {}
  absl::Time Now() const override { return now_ += tick_; }

 private:
  const absl::Duration tick_;
  mutable absl::Time now_ = absl::UnixEpoch();
};

// Reads batches of 256 rows, half of which are fit, `batches` times. Returns whether their table is kept.
bool KeptAfter(absl::Duration read_takes, int batches) {
  constexpr uint64_t kRows = 256;
  const TickingClock clock(read_takes);
  RowCache cache(1 << 20, CacheTrial::kRows, &clock);
  const TableInfo table = MakeTable(1, table::Add{});
  std::vector<uint64_t> keys(kRows);
  std::iota(keys.begin(), keys.end(), 0);
  const auto batch = Grouped(table, keys);
  for (const Batch::Piece& piece : batch->pieces) {
    // About half of the segments are fit.
    const auto certificate = Certified(piece.segment, 10, piece.segment.v % 2 == 0 ? 9 : 5);
    cache.Learn(certificate);
    cache.OnServed(table, *batch, piece, certificate, Bytes(std::vector<float>(piece.rows, 1)));
  }
  std::vector<float> out(kRows);
  for (int i = 0; i < batches && cache.Has(table); ++i) {
    std::vector<uint32_t> missing;
    ClockCounts hits;
    cache.Read(table, {.min_clock = 6}, keys, 0, kRows, out.data(), missing, hits);
  }
  return cache.Has(table);
}

TEST(CacheCostsTest, ATableStaysWhileItsHitsPayForTheCache) {
  EXPECT_TRUE(KeptAfter(absl::Nanoseconds(256 * 10), 200));
}

TEST(CacheCostsTest, ATableIsLeftAtOnceWhereLookingUpCostsMoreThanFetching) {
  const int two_trials = 2 * CacheTrial::kRows / 256;
  EXPECT_FALSE(KeptAfter(absl::Nanoseconds(256 * 400), two_trials));
}

TEST(CacheCostsTest, ATableIsLeftWhereFetchingIsCheap) {
  CacheTrial dear(64), cheap(64);
  for (int i = 0; i < 100; ++i) cheap.costs.fetch.Add(absl::Nanoseconds(64 * 60), 64);
  for (CacheTrial* trial : {&dear, &cheap}) trial->Looked(64, 32, 32);
  EXPECT_TRUE(dear.whole());
  EXPECT_TRUE(cheap.resting());
}

}  // namespace
}  // namespace paceline::sdk
