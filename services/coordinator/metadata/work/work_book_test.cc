// The book of a work queue: what is handed out, what comes back, and what of it is counted.
#include "services/coordinator/metadata/work/work_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"

namespace paceline::coordinator {
namespace {

using ::paceline::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Pair;

WorkQueueRecord Record(uint64_t examples, uint64_t per_item, uint64_t passes) {
  WorkQueueRecord record;
  record.mutable_spec()->set_examples(examples);
  record.mutable_spec()->set_per_item(per_item);
  record.mutable_spec()->set_passes(passes);
  return record;
}

TEST(WorkBookTest, HandsOutInOrderAndNoMoreThanIsWanted) {
  WorkBook book(Record(100, 10, 1));
  WorkHeld held;
  EXPECT_EQ(book.HandOut(/*ahead=*/3, /*sessions=*/1, /*outstanding=*/0, held), 3u);
  EXPECT_THAT(held.items, ElementsAre(Key(0), Key(1), Key(2)));
  EXPECT_EQ(book.HandOut(3, 1, 3, held), 0u);
  book.Take({.begun = {{0, 0}}}, held);
  EXPECT_EQ(book.HandOut(3, 1, 3, held), 1u) << "one that is begun is not ahead";
}

TEST(WorkBookTest, TowardsTheEndEachGetsAShare) {
  WorkBook book(Record(100, 10, 1));
  WorkHeld held;
  EXPECT_EQ(book.HandOut(256, /*sessions=*/2, 0, held), 2u) << "a quarter of ten";
  WorkHeld other;
  EXPECT_EQ(book.HandOut(256, 2, 2, other), 2u);
  EXPECT_EQ(book.HandOut(256, 2, 4, held), 1u);
  EXPECT_EQ(book.HandOut(1, 1000, 5, other), 0u);
  EXPECT_EQ(book.HandOut(3, 1000, 5, other), 1u) << "at least one";
}

TEST(WorkBookTest, MarksOnlyGrowAndEndsCountOnce) {
  WorkBook book(Record(95, 10, 1));
  WorkHeld held;
  book.HandOut(10, 1, 0, held);
  book.HandOut(10, 1, 5, held);
  EXPECT_TRUE(book.Take({.begun = {{0, 4}}}, held).told);
  EXPECT_FALSE(book.Take({.begun = {{0, 2}}}, held).told);
  EXPECT_EQ(held.items[0].mark, 4u);
  EXPECT_TRUE(book.Take({.done = {0}}, held).moved);
  EXPECT_FALSE(book.Take({.done = {0}}, held).moved) << "it came twice";
  EXPECT_EQ(book.examples_done(), 10u);
}

TEST(WorkBookTest, WhatComesBackUnbegunIsNotCounted) {
  WorkBook book(Record(100, 10, 1));
  WorkHeld held;
  book.HandOut(4, 1, 0, held);
  book.Take({.begun = {{1, 13}}}, held);
  book.Take({.given_back = {0, 1, 7}}, held);  // it does not hold 7
  EXPECT_THAT(held.items, ElementsAre(Key(2), Key(3)));
  EXPECT_EQ(book.again_begun(), 7u) << "item 1 from its mark on";
  EXPECT_EQ(book.items_again(), 1u);
  WorkHeld other;
  book.HandOut(2, 1, 2, other);
  EXPECT_THAT(other.items,
              ElementsAre(Pair(0, wire::HeldItem{.mark = 0}), Pair(1, wire::HeldItem{.mark = 13})));
}

TEST(WorkBookTest, OfAnEndedSessionEverythingBehindItsMarksIsCounted) {
  WorkBook book(Record(100, 10, 1));
  WorkHeld held;
  book.HandOut(4, 1, 0, held);
  book.Take({.begun = {{0, 10}, {1, 13}}}, held);
  book.Reclaim(held);
  EXPECT_EQ(book.examples_done(), 10u) << "of item 0 only the report of its end is missing";
  EXPECT_EQ(book.again_begun(), 7u);
  EXPECT_EQ(book.again_perhaps(), 20u) << "it may have begun these without reporting it";
  EXPECT_EQ(book.items_again(), 3u);
  EXPECT_EQ(book.ToHandOut(), 9u);
}

TEST(WorkBookTest, TheNumberOfItemsUnderWayIsBounded) {
  WorkBook book(Record(1 << 20, 1, 1));
  WorkHeld held;
  EXPECT_EQ(book.HandOut(1000, 1, 0, held), WorkHeld::kItemsMax);
  WorkHeld other;
  EXPECT_EQ(book.HandOut(10, 1, WorkBook::kOutstandingMax - 3, other), 3u);
}

WorkQueueRecord InOrder(uint64_t examples, uint64_t per_item, uint64_t passes) {
  WorkQueueRecord record = Record(examples, per_item, passes);
  record.mutable_spec()->set_passes_in_order(true);
  return record;
}

TEST(WorkBookTest, InOrderNothingIsHandedOutBeforeThatOfThePassBeforeIsDone) {
  WorkBook book(InOrder(30, 10, 3));  // three items a pass
  WorkHeld one, other;
  EXPECT_EQ(book.HandOut(256, /*sessions=*/1, 0, one), 1u) << "half of the three of a pass";
  EXPECT_EQ(book.HandOut(256, 1, 1, other, /*oldest=*/0), 1u);
  EXPECT_EQ(book.HandOut(256, 1, 2, other, 0), 1u);
  EXPECT_EQ(book.HandOut(256, 1, 3, other, 0), 0u) << "item 3 is that of item 0 in the next pass";
  book.Take({.begun = {{1, 20}, {2, 30}}, .done = {1, 2}}, other);
  EXPECT_EQ(book.HandOut(256, 1, 1, other, 0), 0u) << "item 0 is not done";
  book.Take({.begun = {{0, 5}}}, one);
  book.Reclaim(one);  // it comes back, and is still the first that is not done
  EXPECT_EQ(book.HandOut(256, 1, 0, other), 1u);
  EXPECT_THAT(other.items, ElementsAre(Pair(0, wire::HeldItem{.mark = 5})));
  EXPECT_EQ(book.HandOut(256, 1, 1, other, 0), 0u);
  book.Take({.done = {0}}, other);
  EXPECT_EQ(book.HandOut(256, 1, 0, other), 1u);
  EXPECT_THAT(other.items, ElementsAre(Key(3)));
}

TEST(WorkBookTest, TheOrderOfPassesOutlivesTheCoordinator) {
  WorkQueueRecord record = InOrder(10, 10, 2);
  WorkBook book(record);
  WorkHeld held;
  EXPECT_EQ(book.HandOut(1, 1, 0, held), 1u);
  book.WriteTo(record);
  WorkHeld other;
  EXPECT_EQ(WorkBook(record).HandOut(1, 1, 1, other, /*oldest=*/0), 0u);
  book.Take({.done = {0}}, held);
  book.WriteTo(record);
  EXPECT_EQ(WorkBook(record).HandOut(1, 1, 0, other), 1u);
}

TEST(WorkBookTest, ARecordHoldsTheWholeBook) {
  WorkQueueRecord record = Record(1000, 10, 3);
  WorkBook book(record);
  WorkHeld held;
  book.HandOut(20, 1, 0, held);
  book.Take({.begun = {{3, 35}}, .done = {0, 1}, .given_back = {7, 8}}, held);
  book.Reclaim(held);
  book.WriteTo(record);
  WorkBook again(record);
  WorkQueueRecord same = record;
  again.WriteTo(same);
  EXPECT_EQ(same.SerializeAsString(), record.SerializeAsString());
  EXPECT_EQ(again.ToHandOut(), book.ToHandOut());
  EXPECT_LT(record.ByteSizeLong(), 100u) << "neighbours are stored together";
}

// Workers come, train, report, go and die at random; the book goes through its record now and then. In the
// end every example of every pass was trained, and beyond once no more often than is counted.
TEST(WorkBookTest, EverythingIsTrainedAndOnceButForWhatIsCounted) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    world::SplitMix64 random(seed);
    const auto below = [&](uint64_t n) { return world::Uniform(random, n); };
    WorkQueueRecord record = Record(1 + below(60), 1 + below(9), 1 + below(3));
    record.mutable_spec()->set_passes_in_order(below(2) == 0);
    WorkBook book(record);
    struct Worker {
      WorkHeld held;                    // as the coordinator knows it
      std::map<uint64_t, uint64_t> at;  // positions of items that it has begun, whatever it told
      std::map<uint64_t, uint64_t> told;
    };
    std::vector<Worker> workers(1 + below(4));
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> trained;
    const uint64_t all = record.spec().examples() * record.spec().passes();
    int steps = 0;
    for (; book.examples_done() < all && steps < 20000; ++steps) {
      if (below(50) == 0) {
        book.WriteTo(record);
        book = WorkBook(record);
      }
      Worker& worker = workers[below(workers.size())];
      if (below(30) == 0) {  // it dies
        book.Reclaim(worker.held);
        worker = Worker();
        continue;
      }
      if (below(2) == 0) {  // it trains
        if (worker.held.items.empty()) continue;
        auto item = worker.held.items.begin();
        std::advance(item, below(worker.held.items.size()));
        const wire::WorkRange range = wire::RangeOf(record.spec(), item->first);
        uint64_t& at = worker.at.try_emplace(item->first, item->second.mark).first->second;
        if (at == range.end) continue;
        if (record.spec().passes_in_order() && range.pass > 0) {
          ASSERT_GT(trained[std::pair(range.pass - 1, at)], 0u) << "seed " << seed << ", example " << at;
        }
        trained[{range.pass, at}] += 1;
        ++at;
        continue;
      }
      WorkReport report;
      for (const auto& [item, at] : worker.at) {
        report.begun[item] = at;
        if (at == wire::RangeOf(record.spec(), item).end && below(3) > 0) report.done.push_back(item);
      }
      for (const auto& [item, held] : worker.held.items) {
        if (!worker.at.contains(item) && below(8) == 0) report.given_back.push_back(item);
      }
      book.Take(report, worker.held);
      for (const uint64_t item : report.done) worker.at.erase(item);
      size_t outstanding = 0;
      uint64_t oldest = UINT64_MAX;
      for (const Worker& one : workers) {
        outstanding += one.held.items.size();
        if (!one.held.items.empty()) oldest = std::min(oldest, one.held.items.begin()->first);
      }
      book.HandOut(below(6), workers.size(), outstanding, worker.held, oldest);
    }
    ASSERT_EQ(book.examples_done(), all) << "seed " << seed << ", " << steps << " steps";
    ASSERT_EQ(trained.size(), all) << "seed " << seed;
    uint64_t beyond_once = 0;
    for (const auto& [example, times] : trained) beyond_once += times - 1;
    EXPECT_LE(beyond_once, book.again_begun() + book.again_perhaps()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::coordinator
