#include "libs/sim/calls.h"

#include <gtest/gtest.h>

#include <optional>

namespace paceline::sim {
namespace {

class CallsTest : public ::testing::Test {
 protected:
  CallsTest() { calls.partitions = &partitions; }

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
  HistoryHash history;
  Marks marks;
  Calls calls{scheduler, random, history, marks};
  Partitions partitions;
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
  partitions.Add({{"asker", "answerer"}}, scheduler.Now() + absl::Seconds(1), [&] { ++felt; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(Ask().status()));
  EXPECT_EQ(served, 0);
  EXPECT_EQ(felt, 1);
  EXPECT_EQ(*Ask(), 7) << "it is over";
}

TEST_F(CallsTest, ACutOnTheWayBackLosesTheAnswerOnly) {
  partitions.Add({{"answerer", "asker"}}, scheduler.Now() + absl::Seconds(1), [] {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Ask().status()));
  EXPECT_EQ(served, 1);
}

TEST_F(CallsTest, ACutOfOthersIsNotFelt) {
  int felt = 0;
  partitions.Add(Partitions::Both("asker", "somebody"), scheduler.Now() + absl::Seconds(1), [&] { ++felt; });
  EXPECT_EQ(*Ask(), 7);
  EXPECT_EQ(felt, 0);
}

TEST_F(CallsTest, TheLongestOfSeveralCutsCountsAndEachIsFelt) {
  int felt = 0;
  const absl::Time until = scheduler.Now() + absl::Seconds(3);
  partitions.Add(Partitions::Both("asker", "answerer"), until, [&] { ++felt; });
  partitions.Add({{"asker", "answerer"}}, scheduler.Now() + absl::Seconds(1), [&] { ++felt; });
  EXPECT_EQ(partitions.Free("asker", "answerer", scheduler.Now()), until);
  EXPECT_EQ(felt, 2);
  EXPECT_EQ(partitions.Free("asker", "answerer", until), until);
}

}  // namespace
}  // namespace paceline::sim
