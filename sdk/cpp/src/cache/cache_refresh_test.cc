// The cache's handling of an answer that says which rows have changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "sdk/cpp/src/testing/cache_harness.h"

namespace paceline::sdk {
namespace {

using testing::Bytes;
using testing::Certified;
using ::testing::IsEmpty;

struct RefreshTest : ::testing::Test, testing::CacheHarness {
  // A read of the key that may ask for a refresh: what it would ask.
  std::vector<Refresh> Ask(const TableInfo& table, uint64_t key, Clock bound, uint32_t worth = 1) {
    std::vector<float> out(table.schema.dim, -1);
    std::vector<uint32_t> missing, old;
    ClockCounts hits;
    cache.Read(table, {.min_clock = bound}, {key}, 0, 1, out.data(), missing, hits, &old);
    refreshable = !old.empty();
    return cache.TakeRefreshes(table, worth);
  }
  // The answer to `refresh`; nullopt: it is not known what has changed.
  void Answer(const TableInfo& table, const Refresh& refresh, const wire::Certificate& certificate,
              std::optional<std::vector<std::pair<uint64_t, float>>> changed) {
    cache.Learn(certificate);
    std::vector<uint64_t> keys;
    std::vector<float> values;
    for (const auto& [key, value] : changed.value_or(std::vector<std::pair<uint64_t, float>>())) {
      keys.push_back(key);
      values.insert(values.end(), table.schema.dim, value);
    }
    const auto count = changed.has_value() ? std::optional(static_cast<uint32_t>(keys.size())) : std::nullopt;
    cache.OnChanges(table, certificate, refresh.since, count,
                    {reinterpret_cast<const char*>(keys.data()), keys.size() * 8}, Bytes(values));
    cache.OnRefreshEnded(table, *BatchOf({&refresh, 1}, table.schema.dim, AllocateFresh));
  }
  // A chain of `add` in `segment` that begins at version 10.
  void Begin() {
    Serve(add, 7, Certified(segment, 9, 4), 1);
    const auto first = Ask(add, 7, 5);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].rows_max, 0u);
    EXPECT_FALSE(refreshable) << "the row is to be pulled meanwhile";
    Answer(add, first[0], Certified(segment, 10, 5), std::nullopt);
    EXPECT_EQ(Read(add, 7, {.min_clock = 5}), std::nullopt) << "it may have changed between 9 and 10";
    Serve(add, 7, Certified(segment, 11, 5), 2);
  }

  bool refreshable = false;
};

TEST_F(RefreshTest, ARowThatHasNotChangedIsAsNewAsTheAnswer) {
  Begin();
  const auto asked = Ask(add, 7, 6);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(refreshable);
  EXPECT_EQ(asked[0].since, Lsn(10));
  Answer(add, asked[0], Certified(segment, 30, 8), {{}});
  EXPECT_EQ(Read(add, 7, {.min_clock = 8}), 2);
  EXPECT_EQ(Read(add, 7, {.min_clock = 9}), std::nullopt);
  const auto next = Ask(add, 7, 9);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].since, Lsn(30)) << "from where the last answer ended";
}

TEST_F(RefreshTest, ChangedRowsAreReplaced) {
  Begin();
  const auto asked = Ask(add, 7, 6);
  Answer(add, asked[0], Certified(segment, 30, 8), {{{7, 5.0f}}});
  EXPECT_EQ(Read(add, 7, {.min_clock = 8}), 5);
  EXPECT_EQ(Read(add, 7, {.min_clock = 9}), std::nullopt);
}

TEST_F(RefreshTest, ARowFromBeforeTheChainIsNotInIt) {
  Begin();
  uint64_t other = 8;
  while (SegmentOf(add, other) != segment) ++other;
  Serve(add, other, Certified(segment, 9, 4), 3);
  Answer(add, Ask(add, 7, 6)[0], Certified(segment, 30, 8), {{}});
  EXPECT_EQ(Read(add, other, {.min_clock = 4}), 3);
  EXPECT_EQ(Read(add, other, {.min_clock = 5}), std::nullopt) << "it may have changed between 9 and 10";
}

TEST_F(RefreshTest, ARowOfALaterVersionStaysAsItIs) {
  Begin();
  const auto asked = Ask(add, 7, 6);
  Serve(add, 7, Certified(segment, 40, 9), 6);  // overtakes the answer
  Answer(add, asked[0], Certified(segment, 30, 8), {{{7, 5.0f}}});
  EXPECT_EQ(Read(add, 7, {.min_clock = 9}), 6);
}

// That it has changed at 25 was told when it was not here.
TEST_F(RefreshTest, ARowOfAnAnswerThatARefreshHasOvertakenIsNotKept) {
  Begin();
  uint64_t other = 8;
  while (SegmentOf(add, other) != segment) ++other;
  Answer(add, Ask(add, 7, 6)[0], Certified(segment, 30, 8), {{{other, 5.0f}}});
  Serve(add, other, Certified(segment, 20, 6), 3);
  EXPECT_EQ(Read(add, other, {.min_clock = 6}), std::nullopt);
  Serve(add, other, Certified(segment, 30, 8), 5);
  EXPECT_EQ(Read(add, other, {.min_clock = 8}), 5);
}

TEST_F(RefreshTest, AnAnswerThatDoesNotFollowSaysNothing) {
  Begin();
  Refresh late = Ask(add, 7, 6)[0];
  late.since = Lsn(12);  // beyond the end of the chain: what came between is not known
  Answer(add, late, Certified(segment, 30, 8), {{}});
  EXPECT_EQ(Read(add, 7, {.min_clock = 6}), std::nullopt);
  Answer(add, Ask(add, 7, 6)[0], Certified(segment, 31, 8, 0, /*epoch=*/2, /*began=*/20), {{}});
  EXPECT_EQ(Read(add, 7, {.min_clock = 6}), std::nullopt) << "of another epoch";
}

TEST_F(RefreshTest, ARowWithAPushThatTheAnswerLacksIsPulled) {
  Begin();
  const auto asked = Ask(add, 7, 6);
  Push(add, {7}, {1}, 1);
  EXPECT_EQ(Read(add, 7, {.min_clock = 5}), 3);
  Answer(add, asked[0], Certified(segment, 30, 8, /*own=*/0), {{{7, 5.0f}}});
  EXPECT_EQ(Read(add, 7, {}), std::nullopt) << "neither of the two has both";
}

TEST_F(RefreshTest, APushStaysInARowThatHasNotChangedOtherwise) {
  Begin();
  const auto asked = Ask(add, 7, 6);
  Push(add, {7}, {1}, 1);
  Answer(add, asked[0], Certified(segment, 30, 8, /*own=*/0), {{}});
  EXPECT_EQ(Read(add, 7, {.min_clock = 8}), 3);
}

TEST_F(RefreshTest, TooManyChangesBeginAnewAndPause) {
  Begin();
  Answer(add, Ask(add, 7, 6)[0], Certified(segment, 30, 8), std::nullopt);
  EXPECT_EQ(Read(add, 7, {.min_clock = 6}), std::nullopt);
  Serve(add, 7, Certified(segment, 31, 8), 4);
  EXPECT_THAT(Ask(add, 7, 7), IsEmpty()) << "it is good still";
  EXPECT_THAT(Ask(add, 7, 9), ::testing::SizeIs(1));
}

TEST_F(RefreshTest, ASegmentHasOneRefreshAtATime) {
  Begin();
  EXPECT_EQ(Ask(add, 7, 6).size(), 1u);
  EXPECT_THAT(Ask(add, 7, 6), IsEmpty());
  EXPECT_FALSE(refreshable);
}

TEST_F(RefreshTest, RefreshesThatDoNotPayBecomeRarer) {
  Begin();
  std::vector<std::pair<uint64_t, float>> others;
  for (uint64_t key = 1000; others.size() < 100; ++key) {
    if (SegmentOf(add, key) == segment) others.emplace_back(key, 1.0f);
  }
  int refreshes = 0;
  Lsn version(30);
  for (Clock bound = 6; bound < 206; ++bound) {
    for (const Refresh& asked : Ask(add, 7, bound)) {
      ++refreshes;
      Answer(add, asked, Certified(segment, version.v, bound), others);
    }
    if (!Read(add, 7, {.min_clock = bound}).has_value())
      Serve(add, 7, Certified(segment, version.v, bound), 2);
    version = Lsn(version.v + 10);
  }
  EXPECT_TRUE(2 < refreshes && refreshes < 20) << refreshes << " of 200 clocks, and it tries again";
}

}  // namespace
}  // namespace paceline::sdk
