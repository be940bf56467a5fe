#include "libs/rpc/turn.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"

namespace paceline::rpc {
namespace {

using Sleep = Turn::Sleep;

void Nothing() {}

bool Is() {
  return true;
}
bool IsNot() {
  return false;
}

class TurnTest : public testing::Test {
 protected:
  // The loop's thread takes an event for a thread that may carry on.
  void LeaveToNobody() {
    turn_.Take(Nothing);
    turn_.FallAsleep(is_, Sleep::kMayCarryOn);
    turn_.Offer();
    turn_.Awake(is_);
  }

  // The loop's thread takes an event while such threads sleep: whether it keeps the turn.
  bool IsKeptFor(std::vector<std::pair<const Turn::DoneFn*, Sleep>> sleepers) {
    turn_.Take(Nothing);
    for (const auto& [done, how] : sleepers) turn_.FallAsleep(*done, how);
    turn_.Offer();
    return turn_.TakenByLoop();
  }

  const Turn::DoneFn is_ = Is;
  const Turn::DoneFn is_not_ = IsNot;
  Turn turn_;
};

TEST_F(TurnTest, IsTheLoopsAtFirst) {
  turn_.Take([] { FAIL() << "it waited"; });
  EXPECT_TRUE(turn_.TakenByLoop());
  EXPECT_FALSE(turn_.BeginCarry());
}

TEST_F(TurnTest, IsLeftToWhoHasWhatItWaitedForAndThenToItsNextWaits) {
  LeaveToNobody();
  EXPECT_FALSE(turn_.TakenByLoop());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(turn_.BeginCarry());
    EXPECT_TRUE(turn_.Carried());
    EXPECT_FALSE(turn_.BeginCarry()) << "two threads would take events";
    turn_.EndCarry(/*leave=*/true);
  }
}

TEST_F(TurnTest, IsKeptForAThreadThatStillWaits) {
  EXPECT_TRUE(IsKeptFor({{&is_not_, Sleep::kMayCarryOn}}));
}

TEST_F(TurnTest, IsKeptForAThreadThatTakesNoEvents) {
  EXPECT_TRUE(IsKeptFor({{&is_, Sleep::kNow}}));
}

TEST_F(TurnTest, IsKeptWhereTwoThreadsWait) {
  EXPECT_TRUE(IsKeptFor({{&is_, Sleep::kMayCarryOn}, {&is_not_, Sleep::kMayCarryOn}}));
}

TEST_F(TurnTest, IsKeptForNobody) {
  EXPECT_TRUE(IsKeptFor({}));
}

TEST_F(TurnTest, IsKeptOnceAfterHurry) {
  turn_.Take(Nothing);
  turn_.FallAsleep(is_, Sleep::kMayCarryOn);
  turn_.Hurry();
  turn_.Offer();
  EXPECT_TRUE(turn_.TakenByLoop());
  turn_.Offer();
  EXPECT_FALSE(turn_.TakenByLoop());
}

TEST_F(TurnTest, IsKeptAtTheEnd) {
  turn_.Take(Nothing);
  turn_.FallAsleep(is_, Sleep::kMayCarryOn);
  turn_.Keep();
  turn_.Take(Nothing);
  turn_.Offer();
  turn_.Offer();
  EXPECT_TRUE(turn_.TakenByLoop());
}

TEST_F(TurnTest, OfACarrierThatLeavesNothingGoesToTheLoop) {
  LeaveToNobody();
  ASSERT_TRUE(turn_.BeginCarry());
  turn_.EndCarry(/*leave=*/false);
  turn_.Take([] { FAIL() << "it waited"; });
}

TEST_F(TurnTest, GoesToTheLoopWhenTheCarrierLeavesAndAnotherThreadSleeps) {
  LeaveToNobody();
  ASSERT_TRUE(turn_.BeginCarry());
  turn_.FallAsleep(is_not_, Sleep::kMayCarryOn);
  turn_.EndCarry(/*leave=*/true);
  EXPECT_FALSE(turn_.BeginCarry()) << "nobody would take the events of the thread that sleeps";
  turn_.Take([] { FAIL() << "it waited"; });
}

TEST_F(TurnTest, GoesToTheLoopAtOnceWhereNobodyHasItAndAnEventIsDue) {
  LeaveToNobody();
  turn_.Hurry();
  turn_.Take([] { FAIL() << "it waited"; });
}

TEST_F(TurnTest, GoesToTheLoopWhereNobodyHasCarriedForAWhile) {
  LeaveToNobody();
  turn_.Take(Nothing);
  EXPECT_TRUE(turn_.TakenByLoop());
}

TEST_F(TurnTest, OfACarrierIsAwaitedWhileTheLoopDoesWhatIsDue) {
  LeaveToNobody();
  ASSERT_TRUE(turn_.BeginCarry());
  Notification due;
  std::thread loop([&] {
    bool first = true;
    turn_.Take([&] {
      if (std::exchange(first, false)) due.Notify();
    });
  });
  due.WaitForNotification();  // by the loop's thread, which waits for this one
  EXPECT_TRUE(turn_.Carried());
  turn_.EndCarry(/*leave=*/false);
  loop.join();
  EXPECT_TRUE(turn_.TakenByLoop());
}

}  // namespace
}  // namespace paceline::rpc
