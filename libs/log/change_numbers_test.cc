#include "libs/log/change_numbers.h"

#include "gtest/gtest.h"

namespace paceline::log {
namespace {

constexpr Subject kSession{Subject::Kind::kSession, 7};
constexpr Subject kTable{Subject::Kind::kTable, 7};

TEST(ChangeNumbersTest, ASmallerNumberOfTheSubjectIsLateAndAnEqualOneIsNot) {
  ChangeNumbers numbers;
  EXPECT_FALSE(numbers.IsLate(kSession, 1));
  numbers.Begin({.subject = kSession, .number = 5});
  EXPECT_TRUE(numbers.IsLate(kSession, 4));
  EXPECT_FALSE(numbers.IsLate(kSession, 5));
  EXPECT_TRUE(numbers.HasBegun(kSession, 5));
  EXPECT_FALSE(numbers.IsLate(kSession, 6));
  EXPECT_FALSE(numbers.HasBegun(kSession, 6));
}

TEST(ChangeNumbersTest, SubjectsOfDifferentKindsAreDifferent) {
  ChangeNumbers numbers;
  numbers.Begin({.subject = kSession, .number = 5});
  EXPECT_FALSE(numbers.IsLate(kTable, 4));
  EXPECT_FALSE(numbers.HasBegun(kTable, 5));
}

TEST(ChangeNumbersTest, WhatTheFloorHasReachedIsLateAndForgotten) {
  ChangeNumbers numbers;
  numbers.Begin({.subject = kSession, .number = 5});
  numbers.Begin({.subject = kTable, .number = 8, .floor = 5});
  EXPECT_TRUE(numbers.IsLate(kSession, 5)) << "it is over";
  EXPECT_EQ(numbers.last().size(), 1u);
  EXPECT_FALSE(numbers.IsLate(kTable, 8));
  EXPECT_FALSE(numbers.IsLate(kSession, 6));
}

TEST(ChangeNumbersTest, TheFloorRisesAloneAndNeverFalls) {
  ChangeNumbers numbers;
  numbers.Begin({.subject = {}, .number = 0, .floor = 9});
  EXPECT_TRUE(numbers.IsLate(kTable, 9));
  EXPECT_TRUE(numbers.last().empty());
  numbers.Begin({.subject = kTable, .number = 12, .floor = 3});
  EXPECT_EQ(numbers.floor(), 9u);
  EXPECT_EQ(numbers.Highest(), 12u);
}

}  // namespace
}  // namespace paceline::log
