#include "examples/lib/loss_recorder.h"

#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

std::vector<LossPiece> OfAllClocks(size_t clocks, size_t passes) {
  LossRecorder losses(clocks, passes);
  for (size_t clock = 0; clock < clocks; ++clock)
    losses.Add(clock, clock, 10, 5, static_cast<int64_t>(clock));
  return std::move(losses).Take();
}

TEST(LossRecorderTest, PassesAreCutIntoEqualPieces) {
  EXPECT_EQ(OfAllClocks(1000, 5).size(), 35u);
  EXPECT_EQ(OfAllClocks(1000, 40).size(), 40u);
  EXPECT_EQ(OfAllClocks(100'000, 10'000).size(), 256u);
  EXPECT_EQ(OfAllClocks(3, 1).size(), 3u);
}

TEST(LossRecorderTest, APieceHasTheSumsOfItsClocks) {
  const std::vector<LossPiece> pieces = OfAllClocks(64, 32);
  ASSERT_EQ(pieces.size(), 32u);
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].examples, 20u);
    EXPECT_EQ(pieces[i].loss_sum, 10);
    EXPECT_EQ(pieces[i].clock, 2 * i + 2);
    EXPECT_EQ(pieces[i].ended, static_cast<int64_t>(2 * i + 1));
  }
}

TEST(LossRecorderTest, WhatAWorkerMissedStaysEmpty) {
  LossRecorder losses(4, 4);
  losses.Add(2, 2, 1, 1, 7);
  const std::vector<LossPiece> pieces = std::move(losses).Take();
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0].examples, 0u);
  EXPECT_EQ(pieces[2].examples, 1u);
}

// By a work queue a worker's clocks say nothing of the place in the run.
TEST(LossRecorderTest, AStepIsSomewhereElseThanItsClock) {
  LossRecorder losses(4, 4);
  losses.Add(3, 100, 1, 1, 7);
  losses.Add(0, 101, 1, 1, 8);
  const std::vector<LossPiece> pieces = std::move(losses).Take();
  EXPECT_EQ(pieces[3].clock, 101u);
  EXPECT_EQ(pieces[0].clock, 102u);
}

}  // namespace
}  // namespace paceline::examples
