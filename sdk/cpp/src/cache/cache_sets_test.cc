// The cache's handling of what shards tell of its rows.
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
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr PartNumber kNoOwn = 0;

TableInfo ToldTable(uint32_t id, const table::Rule& rule) {
  TableInfo table = testing::MakeTable(id, rule);
  table.consistency = Essp{.staleness = 2};
  return table;
}

struct SetsTest : ::testing::Test, testing::CacheHarness {
  explicit SetsTest(uint64_t bytes = 1 << 20) : CacheHarness(bytes) {}

  std::optional<SetChange> Take() {
    return cache.TakeSetChange(told, [](SegmentId) { return true; });
  }
  // An update of the set; nullopt: it is not known what has changed.
  void Update(uint64_t after, const wire::Certificate& certificate, uint32_t knows,
              std::optional<std::vector<std::pair<uint64_t, float>>> changed,
              const std::vector<uint64_t>& left_out = {}) {
    cache.Learn(certificate);
    std::vector<uint64_t> keys;
    std::vector<float> values;
    for (const auto& [key, value] : changed.value_or(std::vector<std::pair<uint64_t, float>>())) {
      keys.push_back(key);
      values.push_back(value);
    }
    const auto count = changed.has_value() ? std::optional(static_cast<uint32_t>(keys.size())) : std::nullopt;
    cache.OnUpdate(told, certificate, Lsn(after), knows, count,
                   {reinterpret_cast<const char*>(keys.data()), keys.size() * 8}, Bytes(values),
                   {reinterpret_cast<const char*>(left_out.data()), left_out.size() * 8});
  }
  // Key 7 is in the set, as of version 12 of its segment, with value 2 and min clock 5.
  void Begin() {
    Serve(told, 7, Certified(home, 11, 4), 2);
    const auto change = Take();
    ASSERT_TRUE(change.has_value());
    EXPECT_FALSE(change->leave);
    EXPECT_THAT(change->segments, ElementsAre(Pair(home, ElementsAre(7))));
    number = change->number;
    Update(10, Certified(home, 12, 5), number, {{}});
    EXPECT_EQ(Read(told, 7, {.min_clock = 5}), 2);
  }

  const TableInfo told = ToldTable(9, table::Add{});
  const SegmentId home = SegmentOf(told, 7);
  uint64_t other = [this] {
    uint64_t key = 8;
    while (SegmentOf(told, key) != home) ++key;
    return key;
  }();
  uint32_t number = 0;
};

TEST_F(SetsTest, RowsThatWereFetchedJoinOnce) {
  Serve(told, 7, Certified(home, 11, 4), 2);
  EXPECT_THAT(cache.TakeSetsChanged(), ElementsAre(home));
  EXPECT_THAT(cache.TakeSetsChanged(), IsEmpty());
  ASSERT_TRUE(Take().has_value());
  EXPECT_EQ(Take(), std::nullopt);
  Serve(told, 7, Certified(home, 12, 5), 3);
  EXPECT_EQ(Take(), std::nullopt) << "it is there";
}

TEST_F(SetsTest, RowsOfOtherModelsJoinNothing) {
  Serve(add, 7, Certified(segment, 11, 4), 2);
  EXPECT_THAT(cache.TakeSetsChanged(), IsEmpty());
  EXPECT_EQ(cache.TakeSetChange(add, [](SegmentId) { return true; }), std::nullopt);
}

TEST_F(SetsTest, OnlySegmentsThatAreAskedForAreChanged) {
  Serve(told, 7, Certified(home, 11, 4), 2);
  const auto elsewhere = [this](SegmentId s) { return s != home; };
  EXPECT_FALSE(cache.HasSetChange(told, elsewhere));
  EXPECT_EQ(cache.TakeSetChange(told, elsewhere), std::nullopt);
  EXPECT_TRUE(cache.HasSetChange(told, [](SegmentId) { return true; }));
  EXPECT_TRUE(Take().has_value());
}

TEST_F(SetsTest, ARowThatHasNotChangedIsAsNewAsTheUpdate) {
  Begin();
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), std::nullopt);
  Update(12, Certified(home, 30, 8), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 2);
  EXPECT_EQ(Read(told, 7, {.min_clock = 9}), std::nullopt);
}

TEST_F(SetsTest, ChangedRowsAreReplaced) {
  Begin();
  Update(12, Certified(home, 30, 8), number, {{{7, 5.0f}, {other, 1.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 5);
  EXPECT_EQ(Read(told, other, {}), std::nullopt) << "it was not read";
  Update(30, Certified(home, 40, 9), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 9}), 5) << "and goes on being told of";
}

TEST_F(SetsTest, ARowThatIsLeftOutStaysAsOldAsItIs) {
  Begin();
  Update(12, Certified(home, 30, 8), number, {{}});
  Update(30, Certified(home, 40, 9), number, {{}}, {7});
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 2) << "it is as of the update before";
  EXPECT_EQ(Read(told, 7, {.min_clock = 9}), std::nullopt);
  Update(40, Certified(home, 50, 10), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 9}), std::nullopt) << "it is named once, and due until it is brought";
  Update(50, Certified(home, 60, 11), number, {{{7, 5.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 11}), 5);
  Update(60, Certified(home, 70, 12), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 12}), 5) << "and goes on being told of";
}

// The shard does not know that it was pulled, and does not name it again.
TEST_F(SetsTest, ARowThatIsDueAndPulledIsStillNotToldOf) {
  Begin();
  Update(12, Certified(home, 30, 8), number, {{}}, {7});
  Serve(told, 7, Certified(home, 35, 8), 4);
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 4);
  Update(30, Certified(home, 40, 9), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 9}), std::nullopt) << "it may have changed after 35";
  Serve(told, 7, Certified(home, 55, 10), 6);
  Update(40, Certified(home, 50, 10), number, {{{7, 5.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 10}), 6) << "what is brought is older";
  Update(50, Certified(home, 60, 11), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 11}), 6) << "but now it is told of";
}

TEST_F(SetsTest, ARowIsLeftOutByTheUpdateThatKnowsItFirst) {
  Begin();
  Serve(told, other, Certified(home, 12, 5), 3);
  const uint32_t later = Take()->number;
  Update(12, Certified(home, 30, 8), later, {{}}, {other});
  EXPECT_EQ(Read(told, other, {.min_clock = 6}), std::nullopt);
  EXPECT_EQ(Read(told, other, {.min_clock = 5}), 3);
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 2) << "of the others it says what it says";
}

// It begins anew at the shard too, which was told so before the update was built.
TEST_F(SetsTest, ARowThatJoinsAgainIsNotDueByAnEarlierUpdate) {
  Begin();
  Update(12, Certified(home, 30, 8), number, std::nullopt);  // the set is gone
  Serve(told, 7, Certified(home, 31, 8), 4);
  const uint32_t again = Take()->number;
  Update(30, Certified(home, 40, 9), number, {{}}, {7});
  Serve(told, 7, Certified(home, 45, 9), 5);
  Update(40, Certified(home, 50, 10), again, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 10}), 5);
}

TEST_F(SetsTest, AnUpdateThatDoesNotFollowMakesNothingNewer) {
  Begin();
  Update(13, Certified(home, 30, 8), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 5}), 2) << "what it was it stays";
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), std::nullopt) << "it may have changed at 13";
  Update(30, Certified(home, 40, 9), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), std::nullopt);
  Serve(told, 7, Certified(home, 41, 9), 6);
  const auto change = Take();
  ASSERT_TRUE(change.has_value()) << "it joins anew";
  Update(40, Certified(home, 50, 10), change->number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 10}), 6);
}

TEST_F(SetsTest, ARowIsToldOfOnlyByUpdatesThatKnowIt) {
  Begin();
  Serve(told, other, Certified(home, 13, 5), 3);
  const uint32_t later = Take()->number;
  Update(12, Certified(home, 30, 8), number, {{}});
  EXPECT_EQ(Read(told, other, {.min_clock = 8}), std::nullopt) << "the update does not know it";
  EXPECT_EQ(Read(told, other, {.min_clock = 5}), 3);
  Update(30, Certified(home, 40, 9), later, {{}});
  EXPECT_EQ(Read(told, other, {.min_clock = 9}), std::nullopt) << "it may have changed between 13 and 30";
  Serve(told, other, Certified(home, 41, 9), 4);
  EXPECT_EQ(Take(), std::nullopt) << "it is in the set";
  Update(40, Certified(home, 50, 10), later, {{}});
  EXPECT_EQ(Read(told, other, {.min_clock = 10}), 4);
}

TEST_F(SetsTest, AnAnswerThatAnUpdateHasOvertakenIsNotMadeNewer) {
  Begin();
  Serve(told, other, Certified(home, 13, 5), 3);
  const uint32_t later = Take()->number;
  // Not applied to the row: it is most likely refused.
  Push(told, {other}, {std::numeric_limits<float>::infinity()}, 1);
  Update(12, Certified(home, 30, 8, kNoOwn), later, {{{other, 9.0f}}});
  EXPECT_EQ(Read(told, other, {}), std::nullopt);
  Serve(told, other, Certified(home, 20, 7, /*own=*/1), 4);
  EXPECT_EQ(Read(told, other, {.min_clock = 7}), 4);
  EXPECT_EQ(Read(told, other, {.min_clock = 8}), std::nullopt) << "its change up to 30 was told before";
  Update(30, Certified(home, 40, 9, 1), later, {{}});
  EXPECT_EQ(Read(told, other, {.min_clock = 8}), std::nullopt);
  Serve(told, other, Certified(home, 41, 9, 1), 10);
  Update(40, Certified(home, 50, 10, 1), later, {{}});
  EXPECT_EQ(Read(told, other, {.min_clock = 10}), 10);
}

TEST_F(SetsTest, ANewerRowStaysAsItIs) {
  Begin();
  Serve(told, 7, Certified(home, 40, 9), 6);
  Update(12, Certified(home, 30, 8), number, {{{7, 5.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 9}), 6);
  Update(30, Certified(home, 50, 10), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 10}), 6);
}

TEST_F(SetsTest, AnUpdateThatIsNotKnownEndsTheSet) {
  Begin();
  Update(12, Certified(home, 30, 8), number, std::nullopt);
  EXPECT_EQ(Read(told, 7, {.min_clock = 5}), 2);
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), std::nullopt);
  Serve(told, 7, Certified(home, 31, 8), 4);
  EXPECT_TRUE(Take().has_value());
}

TEST_F(SetsTest, ASetThatHasEndedIsMadeAnew) {
  Begin();
  cache.OnSetEnded(told, home, /*pause=*/false);
  // By chance it goes on where the old one ended, without the row.
  Update(12, Certified(home, 30, 8), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), std::nullopt);
  Serve(told, 7, Certified(home, 31, 8), 4);
  EXPECT_TRUE(Take().has_value());
}

TEST_F(SetsTest, AfterARefusalForGoodReasonNothingJoinsForAWhile) {
  Begin();
  cache.OnSetEnded(told, home, /*pause=*/true);
  Serve(told, 7, Certified(home, 31, 8), 4);
  EXPECT_EQ(Take(), std::nullopt);
  EXPECT_EQ(Read(told, 7, {.min_clock = 200}), std::nullopt);
  Serve(told, 7, Certified(home, 41, 200), 4);
  EXPECT_TRUE(Take().has_value());
}

TEST_F(SetsTest, AnotherEpochBeginsAnew) {
  Begin();
  Update(12, Certified(home, 30, 8, kNoOwn, /*epoch=*/2, /*began=*/20), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), std::nullopt);
  EXPECT_EQ(Read(told, 7, {.min_clock = 5}), 2) << "its version is from before";
}

TEST_F(SetsTest, APushStaysInARowThatHasNotChangedOtherwise) {
  Begin();
  Push(told, {7}, {1}, 1);
  Update(12, Certified(home, 30, 8, kNoOwn), number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 3);
}

// Other workers push the row too, and this one is ahead.
TEST_F(SetsTest, AnUpdateThatLacksPushesGetsThemAgain) {
  Begin();
  Push(told, {7}, {1}, 1);
  Push(told, {7, 7}, {10, 20}, 2);
  Update(12, Certified(home, 30, 6, /*own=*/1), number, {{{7, 100.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 6}), 130) << "part 2 is not in it";
  Push(told, {7}, {1000}, 3);
  Update(30, Certified(home, 40, 7, /*own=*/2), number, {{{7, 200.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 7}), 1200);
  Update(40, Certified(home, 50, 8, /*own=*/3), number, {{{7, 300.0f}}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), 300);
}

TEST_F(SetsTest, ThatTakesRoom) {
  CacheHarness small(1 << 20);
  small.Serve(told, 7, Certified(home, 11, 4), 2);
  const auto change = small.cache.TakeSetChange(told, [](SegmentId) { return true; });
  ASSERT_TRUE(change.has_value());
  constexpr PartNumber kPushes = (1 << 20) / 4 / sizeof(float);
  for (PartNumber n = 1; n <= kPushes + 1; ++n) small.Push(told, {7}, {1}, n);
  EXPECT_EQ(small.Read(told, 7, {}), 2 + kPushes + 1);
  const auto certificate = Certified(home, 12, 5);
  small.cache.Learn(certificate);
  const uint64_t key = 7;
  small.cache.OnUpdate(told, certificate, Lsn(10), change->number, 1,
                       {reinterpret_cast<const char*>(&key), sizeof(key)}, Bytes({100}));
  EXPECT_EQ(small.Read(told, 7, {}), std::nullopt) << "beyond it the row is pulled";
}

TEST_F(SetsTest, ARowThatIsSentAgainAndAgainWithoutBeingReadLeaves) {
  Begin();
  Update(12, Certified(home, 30, 6), number, {{{7, 5.0f}}});
  Update(30, Certified(home, 35, 6), number, {{{7, 5.5f}}});
  EXPECT_EQ(Take(), std::nullopt) << "a read may be late";
  Update(35, Certified(home, 40, 7), number, {{{7, 6.0f}}});
  const auto change = Take();
  ASSERT_TRUE(change.has_value());
  EXPECT_TRUE(change->leave);
  EXPECT_THAT(change->segments, ElementsAre(Pair(home, ElementsAre(7))));
  EXPECT_EQ(Read(told, 7, {.min_clock = 7}), 6);
  Update(40, Certified(home, 50, 8), change->number, {{}});
  EXPECT_EQ(Read(told, 7, {.min_clock = 8}), std::nullopt) << "nobody tells of it";
  Serve(told, 7, Certified(home, 51, 8), 7);
  EXPECT_FALSE(Take()->leave);
}

TEST_F(SetsTest, ManyKeysTakeSeveralChanges) {
  CacheHarness big(1 << 24);
  const auto mine = [](SegmentId) { return true; };
  for (uint64_t key = 0; key < RowCache::kSetChangeKeys + 10; ++key) {
    big.Serve(told, key, Certified(SegmentOf(told, key), 11, 4), 1);
  }
  size_t keys = 0;
  uint32_t changes = 0;
  while (const auto change = big.cache.TakeSetChange(told, mine)) {
    EXPECT_EQ(change->number, ++changes);
    for (const auto& [s, some] : change->segments) keys += some.size();
  }
  EXPECT_EQ(keys, RowCache::kSetChangeKeys + 10);
  EXPECT_EQ(changes, 2u);
}

// Room for a few rows.
struct SmallSetsTest : SetsTest {
  SmallSetsTest() : SetsTest(1200) {}
};

TEST_F(SmallSetsTest, EvictedRowsLeave) {
  Begin();
  (void)cache.TakeSetsChanged();
  for (uint64_t key = 1000; key < 1040; ++key) {
    Serve(told, key, Certified(SegmentOf(told, key), 40, 9), 1);
    EXPECT_EQ(Read(told, key, {}), 1) << "so that all have a second chance";
  }
  EXPECT_EQ(Read(told, 7, {}), std::nullopt);
  const auto change = Take();
  ASSERT_TRUE(change.has_value());
  EXPECT_TRUE(change->leave);
  EXPECT_THAT(change->segments, ElementsAre(Pair(home, ElementsAre(7))));
  size_t joining = 0;
  while (const auto next = Take()) {
    EXPECT_FALSE(next->leave);
    for (const auto& [s, keys] : next->segments) joining += keys.size();
  }
  EXPECT_EQ(joining, cache.rows()) << "those that were evicted meanwhile do not join";
}

TEST_F(SmallSetsTest, WhileNobodyIsToldRowsThatComeAndGoAreForgotten) {
  constexpr uint64_t kKeys = 4 * RowCache::kSetChangeKeys;
  for (uint64_t key = 1000; key < 1000 + kKeys; ++key) {
    Serve(told, key, Certified(SegmentOf(told, key), 40, 9), 1);
  }
  const auto change = Take();
  ASSERT_TRUE(change.has_value());
  size_t joining = 0;
  for (const auto& [s, keys] : change->segments) joining += keys.size();
  EXPECT_EQ(joining, cache.rows());
  EXPECT_FALSE(cache.HasSetChange(told, [](SegmentId) { return true; }));
}

}  // namespace
}  // namespace paceline::sdk
