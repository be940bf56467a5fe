#include "libs/sim/calls.h"

#include <gtest/gtest.h>

#include <optional>

namespace paceline::sim {
namespace {

class CallsTest : public ::testing::Test {
 protected:
  CallsTest() { calls.cuts = &cuts; }

  // Runs one call to its end.
  absl::StatusOr<int> Ask() {
    std::optional<absl::StatusOr<int>> answer;
    calls.Call<int>(
        asker, answerer, absl::Seconds(2),
        [this](Calls::Answer<int> done) {
          ++served;
          done(7);
        },
        [&answer](absl::StatusOr<int> reply) { answer = std::move(reply); });
    while (!answer.has_value() && scheduler.RunOne()) {
    }
    return answer.value_or(absl::InternalError("never answered"));
  }

  Scheduler scheduler;
  world::SplitMix64 random{1};
  History history;
  Marks marks;
  Calls calls{scheduler, random, history, marks};
  Cuts cuts;
  Host asker{.name = "asker"};
  Host answerer{.name = "answerer"};
  int served = 0;
};

TEST_F(CallsTest, IsServedAndAnswered) {
  EXPECT_EQ(*Ask(), 7);
  EXPECT_EQ(served, 1);
}

TEST_F(CallsTest, ACutOnTheWayThereKeepsItFromBeingServed) {
  int felt = 0;
  cuts.Add({{"asker", "answerer"}}, scheduler.Now() + absl::Seconds(1), [&] { ++felt; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(Ask().status()));
  EXPECT_EQ(served, 0);
  EXPECT_EQ(felt, 1);
  EXPECT_EQ(*Ask(), 7) << "it is over";
}

TEST_F(CallsTest, ACutOnTheWayBackLosesTheAnswerOnly) {
  cuts.Add({{"answerer", "asker"}}, scheduler.Now() + absl::Seconds(1), [] {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Ask().status()));
  EXPECT_EQ(served, 1);
}

TEST_F(CallsTest, ACutOfOthersIsNotFelt) {
  int felt = 0;
  cuts.Add(Cuts::Both("asker", "somebody"), scheduler.Now() + absl::Seconds(1), [&] { ++felt; });
  EXPECT_EQ(*Ask(), 7);
  EXPECT_EQ(felt, 0);
}

TEST_F(CallsTest, TheLongestOfSeveralCutsCountsAndEachIsFelt) {
  int felt = 0;
  const absl::Time until = scheduler.Now() + absl::Seconds(3);
  cuts.Add(Cuts::Both("asker", "answerer"), until, [&] { ++felt; });
  cuts.Add({{"asker", "answerer"}}, scheduler.Now() + absl::Seconds(1), [&] { ++felt; });
  EXPECT_EQ(cuts.Free("asker", "answerer", scheduler.Now()), until);
  EXPECT_EQ(felt, 2);
  EXPECT_EQ(cuts.Free("asker", "answerer", until), until);
}

}  // namespace
}  // namespace paceline::sim
