#include "sdk/cpp/src/session/table_changes.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "libs/clock/consistency.h"
#include "libs/wire/schema_codec.h"
#include "paceline/v1/types.pb.h"
#include "sdk/cpp/src/testing/cache_harness.h"

namespace paceline::sdk {
namespace {

using testing::Certified;
using testing::MakeTable;

struct TableChangesTest : ::testing::Test, testing::CacheHarness {
  // The table as the coordinator states it after change `number`, which counts from `from` on.
  static v1::Table Stated(const TableInfo& table, uint64_t number = 0, Clock from = 0, uint32_t bound = 0,
                          const table::Rule& rule = table::Add{}) {
    v1::Table stated;
    stated.set_id(table.id.v);
    *stated.mutable_schema() = wire::ToProto(table.schema);
    if (number > 0) *stated.mutable_schema()->mutable_rule() = wire::ToProto(rule);
    stated.set_rule_change(number);
    stated.set_rule_clock(from);
    stated.set_bound(bound);
    return stated;
  }
  std::shared_ptr<const TableInfo> Follower(uint64_t largest = 16) const {
    TableInfo table = MakeTable(9, table::Add{});
    table.consistency = Ssp{.staleness = largest, .catch_up = largest / 2, .adaptive = true};
    return std::make_shared<const TableInfo>(table);
  }
  std::optional<Clock> BoundAt(const TableInfo& table, Clock clock) const {
    return changes.StalenessOf(table, PromiseOf(table.consistency), clock);
  }
  void OpenSgd(bool worker = true, Clock clock = 5) {
    changes.Opened(std::make_shared<const TableInfo>(sgd), Stated(sgd), worker, clock);
  }
  // A row of value 1, and a push of 1 that its certificate does not cover.
  void ServeAndPush(uint64_t key, PartNumber number) {
    Serve(sgd, key, Certified(SegmentOf(sgd, key), 10, 5), 1);
    Push(sgd, {key}, {1}, number);
  }
  v1::Table Rate(float lr, uint64_t number, Clock from) const {
    return Stated(sgd, number, from, 0, table::Sgd{.lr = lr});
  }

  TableChanges changes{cache};
};

TEST_F(TableChangesTest, ASmallerBoundCountsFromItsClockOn) {
  const auto table = Follower();
  changes.Opened(table, Stated(*table), true, 5);
  EXPECT_EQ(BoundAt(*table, 5), clock::kFirstBound);
  changes.Told(Stated(*table, 1, 8, 3), true, 6);
  EXPECT_EQ(BoundAt(*table, 7), clock::kFirstBound);
  EXPECT_EQ(BoundAt(*table, 8), 3u);
  changes.Told(Stated(*table, 2, 12, 2), true, 9);
  EXPECT_EQ(BoundAt(*table, 11), 3u);
  EXPECT_EQ(BoundAt(*table, 12), 2u);
  EXPECT_EQ(changes.Known(table->id), 2u);
  changes.Told(Stated(*table, 1, 8, 3), true, 13);
  EXPECT_EQ(BoundAt(*table, 13), 2u) << "told again, late";
}

TEST_F(TableChangesTest, ALargerBoundCountsAsSoonAsItIsKnown) {
  const auto table = Follower();
  changes.Opened(table, Stated(*table), true, 5);
  changes.Told(Stated(*table, 1, 8, 16), true, 6);
  EXPECT_EQ(BoundAt(*table, 6), 16u);
  EXPECT_EQ(BoundAt(*table, 8), 16u);
  changes.Told(Stated(*table, 2, 12, 2), true, 9);
  EXPECT_EQ(BoundAt(*table, 11), 16u);
  EXPECT_EQ(BoundAt(*table, 12), 2u);
  EXPECT_EQ(BoundAt(*table, 6), clock::kFirstBound) << "the newest does not allow more";
}

TEST_F(TableChangesTest, ALaterChangeThatBeginsEarlierCounts) {
  const auto table = Follower();
  changes.Opened(table, Stated(*table), true, 5);
  changes.Told(Stated(*table, 1, 20, 8), true, 6);
  changes.Told(Stated(*table, 2, 10, 3), true, 6);
  EXPECT_EQ(BoundAt(*table, 9), clock::kFirstBound);
  EXPECT_EQ(BoundAt(*table, 10), 3u);
  EXPECT_EQ(BoundAt(*table, 30), 3u);
}

TEST_F(TableChangesTest, ANewcomerTakesTheBoundOfTheLastChange) {
  const auto table = Follower();
  changes.Opened(table, Stated(*table, 7, 12, 2), true, 10);
  EXPECT_EQ(BoundAt(*table, 11), 2u) << "the one before is not known, and may have been smaller";
  EXPECT_EQ(BoundAt(*table, 12), 2u);
}

TEST_F(TableChangesTest, NoBoundIsLargerThanTheReadersOwn) {
  const auto table = Follower(4);
  changes.Opened(table, Stated(*table, 1, 3, 9), true, 5);
  EXPECT_EQ(BoundAt(*table, 5), 4u);
}

TEST_F(TableChangesTest, CatchingUpIsScaledWithTheBound) {
  const auto table = Follower(16);
  const Promise promise = PromiseOf(table->consistency);
  changes.Opened(table, Stated(*table, 1, 3, 4), true, 5);
  EXPECT_EQ(changes.CatchUpOf(*table, promise, 5), 2u);
  changes.Told(Stated(*table, 2, 6, 16), true, 5);
  EXPECT_EQ(changes.CatchUpOf(*table, promise, 6), 8u);
}

TEST_F(TableChangesTest, ABoundThatIsFixedStaysWhatItIs) {
  TableInfo table = MakeTable(9, table::Add{});
  table.consistency = Ssp{.staleness = 3};
  changes.Opened(std::make_shared<const TableInfo>(table), Stated(table), true, 5);
  changes.Told(Stated(table, 1, 5, 9), true, 5);
  EXPECT_EQ(BoundAt(table, 6), 3u);
  EXPECT_EQ(changes.BoundOf("t", 6), std::nullopt);
}

TEST_F(TableChangesTest, TellsTheBoundByNameForReports) {
  const auto table = Follower();
  changes.Opened(table, Stated(*table, 1, 3, 4), true, 5);
  EXPECT_EQ(changes.BoundOf("t", 5), 4u);
  EXPECT_EQ(changes.BoundOf("u", 5), std::nullopt);
}

TEST_F(TableChangesTest, OwnPushesFollowTheRatesOfTheirClock) {
  OpenSgd();  // at 0.5
  changes.Told(Rate(0.25f, 1, 7), true, 5);
  ServeAndPush(7, 1);
  EXPECT_EQ(Read(sgd, 7, {}), 0.5f) << "not yet";
  changes.OnTick(true, 6);
  EXPECT_EQ(Read(sgd, 7, {}), 0.5f);
  changes.OnTick(true, 7);
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 11, 6, /*own=*/1), 1);
  Push(sgd, {7}, {1}, 2);
  EXPECT_EQ(Read(sgd, 7, {}), 0.75f);
}

TEST_F(TableChangesTest, RowsWithOwnPushesAreReadAnewWhenTheRatesChange) {
  OpenSgd();
  ServeAndPush(7, 1);
  Serve(sgd, 8, Certified(SegmentOf(sgd, 8), 10, 5), 3);
  EXPECT_EQ(Read(sgd, 7, {}), 0.5f);
  // It was at this clock already: the push was applied at the new rate at the shard.
  changes.Told(Rate(0.25f, 1, 4), true, 5);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
  EXPECT_EQ(Read(sgd, 8, {}), 3) << "it holds none";
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 12, 5, /*own=*/1), 0.75f);
  EXPECT_EQ(Read(sgd, 7, {}), 0.75f);
}

TEST_F(TableChangesTest, ANewBoundLeavesCachedRowsAsTheyAre) {
  OpenSgd();
  ServeAndPush(7, 1);
  changes.Told(Stated(sgd, 1, 4, 8, table::Sgd{.lr = 0.5f}), true, 5);
  EXPECT_EQ(Read(sgd, 7, {}), 0.5f);
}

TEST_F(TableChangesTest, BeforeTheClockOfTheLastChangeRatesAreNotKnown) {
  // A newcomer at clock 5; the rate is 0.5 from clock 7 on.
  changes.Opened(std::make_shared<const TableInfo>(sgd), Stated(sgd, 3, 7, 0, table::Sgd{.lr = 0.5f}), true,
                 5);
  ServeAndPush(7, 1);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
  changes.OnTick(true, 7);
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 12, 5, /*own=*/1), 2);
  Push(sgd, {7}, {1}, 2);
  EXPECT_EQ(Read(sgd, 7, {}), 1.5f);
}

// From 0.5 to something else and back, between two keep-alives.
TEST_F(TableChangesTest, RatesThatItWasNotToldAreNotKnown) {
  OpenSgd();
  ServeAndPush(7, 1);
  changes.Told(Rate(0.5f, 2, 5), true, 5);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt) << "at which rate the push was applied";
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 12, 5, /*own=*/1), 2);
  Push(sgd, {7}, {1}, 2);
  EXPECT_EQ(Read(sgd, 7, {}), 1.5f) << "the last change is in force";
}

TEST_F(TableChangesTest, BeforeAChangeThatFollowsMissedOnesRatesAreNotKnown) {
  OpenSgd();
  changes.Told(Rate(0.5f, 2, 7), true, 5);
  ServeAndPush(7, 1);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
  changes.OnTick(true, 7);
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 12, 6, /*own=*/1), 2);
  Push(sgd, {7}, {1}, 2);
  EXPECT_EQ(Read(sgd, 7, {}), 1.5f);
}

TEST_F(TableChangesTest, WhereChangesWereMissedTheBoundIsThatOfTheLastOne) {
  const auto table = Follower();
  changes.Opened(table, Stated(*table, 1, 3, 8), true, 5);
  changes.Told(Stated(*table, 4, 9, 2), true, 6);
  EXPECT_EQ(BoundAt(*table, 8), 2u) << "one of those between may have been as small";
  EXPECT_EQ(BoundAt(*table, 9), 2u);
}

TEST_F(TableChangesTest, ASecondHandleDoesNotBringRatesThatHaveNotBegun) {
  OpenSgd();
  changes.Told(Rate(0.25f, 1, 7), true, 5);
  // Opened anew, with the rates to come; the cache has no row of the table yet.
  TableInfo again = sgd;
  again.schema.rule = table::Sgd{.lr = 0.25f};
  changes.Opened(std::make_shared<const TableInfo>(again), Rate(0.25f, 1, 7), true, 5);
  Serve(again, 7, Certified(SegmentOf(sgd, 7), 10, 5), 1);
  Push(again, {7}, {1}, 1);
  EXPECT_EQ(Read(sgd, 7, {}), 0.5f);
}

TEST_F(TableChangesTest, AClientWithoutAClockRemembersThatRatesHaveChanged) {
  OpenSgd(/*worker=*/false, 0);
  changes.Told(Rate(0.25f, 1, 4), false, 0);
  for (uint64_t number = 2; number < 40; ++number) changes.Told(Rate(0.5f, number, 4 + number), false, 0);
  EXPECT_EQ(changes.Known(sgd.id), 39u);
  ServeAndPush(7, 1);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
}

TEST_F(TableChangesTest, AClientWithoutAClockDoesNotKnowWhichRatesItsPushesFollow) {
  OpenSgd(/*worker=*/false, 0);
  ServeAndPush(7, 1);
  EXPECT_EQ(Read(sgd, 7, {}), 0.5f) << "nothing has changed yet";
  changes.Told(Rate(0.25f, 1, 4), false, 0);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
  Serve(sgd, 7, Certified(SegmentOf(sgd, 7), 12, 5, /*own=*/1), 1);
  EXPECT_EQ(Read(sgd, 7, {}), 1);
  Push(sgd, {7}, {1}, 2);
  EXPECT_EQ(Read(sgd, 7, {}), std::nullopt);
}

}  // namespace
}  // namespace paceline::sdk
