#include "libs/log/rule_schedule.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::log {
namespace {

float RateAt(const RuleSchedule& rules, Clock clock) {
  return std::get<table::Sgd>(rules.At(clock).rule).lr;
}

TEST(RuleScheduleTest, AChangeHoldsFromItsClockOn) {
  RuleSchedule rules(table::Sgd{1});
  EXPECT_EQ(rules.last(), 0u);
  EXPECT_EQ(rules.last_from(), std::nullopt);
  rules.Change(1, table::Sgd{2}, 10);
  EXPECT_EQ(RateAt(rules, 9), 1);
  EXPECT_EQ(RateAt(rules, 10), 2);
  EXPECT_EQ(RateAt(rules, UINT64_MAX), 2);
  EXPECT_EQ(rules.last_from(), 10u);
}

TEST(RuleScheduleTest, ABoundHoldsFromTheSameClockOn) {
  RuleSchedule rules(table::Sgd{1});
  EXPECT_EQ(rules.At(5).bound, 0u) << "the first one";
  rules.Change(1, table::Sgd{1}, 10, /*bound=*/4);
  rules.Change(2, table::Sgd{2}, 20, /*bound=*/4);
  EXPECT_EQ(rules.At(9).bound, 0u);
  EXPECT_EQ(rules.At(10).bound, 4u);
  EXPECT_EQ(rules.At(20).bound, 4u);
}

TEST(RuleScheduleTest, TheLastChangeReplacesThoseThatWouldBeginLater) {
  RuleSchedule rules(table::Sgd{1});
  rules.Change(1, table::Sgd{2}, 10);
  rules.Change(2, table::Sgd{3}, 20);
  rules.Change(3, table::Sgd{4}, 15);
  EXPECT_EQ(RateAt(rules, 14), 2);
  EXPECT_EQ(RateAt(rules, 20), 4);
  rules.Change(4, table::Sgd{5}, 0);
  EXPECT_EQ(RateAt(rules, 0), 5);
  EXPECT_EQ(RateAt(rules, 10), 5);
}

TEST(RuleScheduleTest, AChangeProposedAgainMoves) {
  RuleSchedule rules(table::Sgd{1});
  rules.Change(1, table::Sgd{2}, 10);
  rules.Change(1, table::Sgd{2}, 12);
  EXPECT_EQ(RateAt(rules, 11), 1);
  EXPECT_EQ(RateAt(rules, 12), 2);
  EXPECT_EQ(rules.periods().size(), 2u);
}

// Against all changes ever made, of which the newest that has begun counts.
TEST(RuleScheduleTest, FollowsAllChangesTogether) {
  world::SplitMix64 random(1);
  for (int round = 0; round < 300; ++round) {
    RuleSchedule rules(table::Sgd{0.5f});
    std::map<uint64_t, Clock> all;  // number → from
    Clock forgotten = 0;
    uint64_t number = 1;
    for (int step = 0; step < 20; ++step) {
      if (world::Chance(random, 0.3)) {
        forgotten += world::Uniform(random, 4);
        rules.Forget(forgotten);
      } else {
        // One that has begun is not moved.
        const bool begun = all.contains(number) && all[number] <= forgotten;
        number += begun ? 1 : world::Uniform(random, 2);
        const Clock from = forgotten + world::Uniform(random, 12);
        rules.Change(number, table::Sgd{static_cast<float>(number)}, from);
        all[number] = from;
      }
      for (Clock clock = forgotten; clock < forgotten + 20; ++clock) {
        float expected = 0.5f;
        for (const auto& [n, from] : all) {
          if (from <= clock) expected = static_cast<float>(n);
        }
        ASSERT_EQ(RateAt(rules, clock), expected)
            << "round " << round << " step " << step << " clock " << clock;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::log
