#include "paceline/future.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/callback_thread.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;

using IntState = internal::FutureState<absl::StatusOr<int>>;

TEST(Future, ReadyOnesAnswerAtOnce) {
  EXPECT_FALSE(Future<int>().valid());
  const auto seven = Future<int>::Ready(7);
  EXPECT_TRUE(seven.ready());
  EXPECT_TRUE(seven.Wait(absl::ZeroDuration()));
  EXPECT_THAT(seven.Get(), IsOkAndHolds(7));
  EXPECT_THAT(Future<void>::Ready(absl::AbortedError("why")).Get(),
              StatusIs(absl::StatusCode::kAborted, "why"));
}

TEST(Future, TheFirstResultCounts) {
  auto state = std::make_shared<IntState>();
  const Future<int> future(state);
  EXPECT_FALSE(future.ready());
  EXPECT_FALSE(future.Wait(absl::Milliseconds(1)));
  EXPECT_TRUE(state->Set(1));
  EXPECT_FALSE(state->Set(2));
  EXPECT_THAT(future.Get(), IsOkAndHolds(1));
}

TEST(Future, AWaiterIsWokenByAnotherThread) {
  auto state = std::make_shared<IntState>();
  const Future<int> future(state);
  std::thread setter([state] { state->Set(3); });
  EXPECT_THAT(future.Get(), IsOkAndHolds(3));
  setter.join();
}

TEST(Future, CallbacksAreCalledOnceBeforeOrAfter) {
  auto state = std::make_shared<IntState>();
  const Future<int> future(state);
  std::vector<int> heard;
  future.OnReady([&](const absl::StatusOr<int>& r) { heard.push_back(*r); });
  EXPECT_TRUE(heard.empty());
  state->Set(5);
  future.OnReady([&](const absl::StatusOr<int>& r) { heard.push_back(*r + 1); });
  EXPECT_THAT(heard, ::testing::ElementsAre(5, 6));
}

TEST(Future, HasItsPlaceBeforeItsResult) {
  auto state = std::make_shared<IntState>();
  const Future<int> future(state);
  const Future<void> placed = future.Placed();
  EXPECT_FALSE(placed.ready());
  state->Place();
  EXPECT_THAT(placed.Get(), IsOk());
  EXPECT_FALSE(future.ready());
  state->Set(absl::AbortedError("later"));
  EXPECT_THAT(future.Placed().Get(), IsOk()) << "the error came after it";
}

TEST(Future, WhatEndsWithoutAPlaceHasItThen) {
  auto state = std::make_shared<IntState>();
  const Future<void> placed = Future<int>(state).Placed();
  state->Set(3);
  EXPECT_THAT(placed.Get(), IsOk());
  auto failed = std::make_shared<IntState>();
  const Future<void> unplaced = Future<int>(failed).Placed();
  failed->Set(absl::AbortedError("why"));
  failed->Place();
  EXPECT_THAT(unplaced.Get(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Future<int>(failed).Placed().Get(), StatusIs(absl::StatusCode::kAborted));
}

TEST(Future, AChainHasThePlaceOfItsLastOperationAndAJoinThatOfAll) {
  auto first = std::make_shared<IntState>();
  auto second = std::make_shared<IntState>();
  const Future<int> chain = Future<int>(first).AndThen([&](int) { return Future<int>(second); });
  const Future<void> placed = chain.Placed();
  auto third = std::make_shared<IntState>();
  const Future<void> both = WhenAll(chain, Future<int>(third), Future<int>()).Placed();
  first->Place();
  EXPECT_FALSE(placed.ready());
  first->Set(1);
  EXPECT_FALSE(placed.ready());
  second->Place();
  EXPECT_THAT(placed.Get(), IsOk());
  EXPECT_FALSE(both.ready());
  third->Set(2);
  EXPECT_THAT(both.Get(), IsOk());
  EXPECT_FALSE(chain.ready());
}

TEST(Future, ThenChainsValuesAndErrors) {
  auto state = std::make_shared<IntState>();
  const Future<int> future(state);
  const Future<std::string> text =
      future.Then([](const absl::StatusOr<int>& r) -> absl::StatusOr<std::string> {
        if (!r.ok()) return r.status();
        return std::to_string(*r);
      });
  const Future<void> last = text.Then([](const absl::StatusOr<std::string>& r) { return r.status(); });
  EXPECT_FALSE(last.ready());
  state->Set(12);
  EXPECT_THAT(text.Get(), IsOkAndHolds("12"));
  EXPECT_THAT(last.Get(), IsOk());
  const auto failed = Future<int>::Ready(absl::DataLossError("gone")).Then([](const absl::StatusOr<int>& r) {
    return r.status();
  });
  EXPECT_THAT(failed.Get(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(Future, TheOnlyUserMovesTheValueOut) {
  auto state = std::make_shared<internal::FutureState<absl::StatusOr<std::unique_ptr<int>>>>();
  state->Set(std::make_unique<int>(4));
  absl::StatusOr<std::unique_ptr<int>> value = Future<std::unique_ptr<int>>(state).Get();
  EXPECT_EQ(**value, 4);
}

TEST(Future, AThreadThatRunsCallbacksDoesNotBlock) {
  const Future<int> never(std::make_shared<IntState>());
  std::thread callbacks([&] {
    sdk::ThisThreadRunsCallbacks();
    EXPECT_FALSE(never.Wait(absl::InfiniteDuration()));
    EXPECT_THAT(never.Get(), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(Future<int>::Ready(1).Get(), IsOkAndHolds(1));
  });
  callbacks.join();
}

TEST(Future, ContinuationsMayStartOperations) {
  auto outer = std::make_shared<IntState>();
  auto inner = std::make_shared<internal::FutureState<absl::StatusOr<std::string>>>();
  const Future<std::string> both =
      Future<int>(outer).Then([&](const absl::StatusOr<int>&) { return Future<std::string>(inner); });
  outer->Set(1);
  EXPECT_FALSE(both.ready()) << "waits for what the continuation started";
  inner->Set("done");
  EXPECT_THAT(both.Get(), IsOkAndHolds("done"));
}

TEST(Future, AndThenIsForSuccess) {
  auto state = std::make_shared<IntState>();
  int calls = 0;
  const Future<int> twice = Future<int>(state).AndThen([&](int value) -> absl::StatusOr<int> {
    ++calls;
    return 2 * value;
  });
  const Future<void> nothing = twice.AndThen([&](int) { ++calls; });
  const Future<int> flat =
      nothing.AndThen([&] { return Future<int>::Ready(absl::NotFoundError("of the last one")); });
  state->Set(21);
  EXPECT_THAT(twice.Get(), IsOkAndHolds(42));
  EXPECT_THAT(nothing.Get(), IsOk());
  EXPECT_THAT(flat.Get(), StatusIs(absl::StatusCode::kNotFound, "of the last one"));
  EXPECT_EQ(calls, 2);
}

TEST(Future, AndThenPassesErrorsOn) {
  const auto failed = Future<int>::Ready(absl::DataLossError("segment 3"));
  bool called = false;
  const Future<void> after = failed.AndThen([&](int) { called = true; }).AndThen([&] { called = true; });
  EXPECT_THAT(after.Get(), StatusIs(absl::StatusCode::kDataLoss, "segment 3"));
  EXPECT_FALSE(called);
  EXPECT_THAT(failed.Then([&](const absl::StatusOr<int>& r) { called = !r.ok(); }).Get(), IsOk());
  EXPECT_TRUE(called);
}

TEST(WhenAll, EndsWithTheLast) {
  auto a = std::make_shared<IntState>();
  auto b = std::make_shared<internal::FutureState<absl::Status>>();
  const Future<void> all = WhenAll(Future<int>(a), Future<void>(b), Future<std::string>());
  a->Set(1);
  EXPECT_FALSE(all.ready());
  b->Set(absl::OkStatus());
  EXPECT_THAT(all.Get(), IsOk());
  EXPECT_TRUE(WhenAll().ready());
  EXPECT_TRUE(WhenAll(std::vector<Future<int>>()).ready());
}

TEST(WhenAll, TheFirstErrorInOrderIsItsOwn) {
  std::vector<std::shared_ptr<IntState>> states;
  std::vector<Future<int>> futures;
  for (int i = 0; i < 4; ++i) futures.emplace_back(states.emplace_back(std::make_shared<IntState>()));
  const Future<void> all = WhenAll(futures);
  const Future<void> ended = WhenAllEnded(futures);
  states[3]->Set(absl::AbortedError("3"));
  states[1]->Set(absl::DataLossError("1"));
  states[0]->Set(0);
  EXPECT_FALSE(all.ready()) << "an error does not end it before the others: nothing is under way afterwards";
  states[2]->Set(absl::AbortedError("2"));
  EXPECT_THAT(all.Get(), StatusIs(absl::StatusCode::kDataLoss, "1"));
  EXPECT_THAT(ended.Get(), IsOk());
  EXPECT_THAT(WhenAllEnded(futures[1], all).Get(), IsOk());
}

TEST(WhenAll, EndsOnceWhenManyThreadsEndIt) {
  for (int round = 0; round < 50; ++round) {
    std::vector<std::shared_ptr<IntState>> states;
    std::vector<Future<int>> futures;
    for (int i = 0; i < 4; ++i) futures.emplace_back(states.emplace_back(std::make_shared<IntState>()));
    std::vector<int> values(4);
    int sum = 0;
    const Future<void> summed = WhenAll(futures).AndThen([&] {
      for (int value : values) sum += value;
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        values[i] = i + 1;
        states[i]->Set(i);
      });
    }
    EXPECT_THAT(summed.Get(), IsOk());
    EXPECT_EQ(sum, 10);
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Future, AChainOfAnyLengthNeedsNoDeepStack) {
  auto state = std::make_shared<internal::FutureState<absl::Status>>();
  Future<void> last(state);
  int64_t steps = 0;
  for (int i = 0; i < 200'000; ++i) {
    last = last.AndThen([&] { ++steps; });
  }
  state->Set(absl::OkStatus());
  EXPECT_THAT(last.Get(), IsOk());
  EXPECT_EQ(steps, 200'000);
}

TEST(Future, ACallbackDoesNotWaitForOneBehindIt) {
  // On any thread: a callback that is queued behind the first sets the second result.
  auto state = std::make_shared<IntState>();
  const Future<int> first(state);
  Future<int> second;
  absl::StatusOr<int> seen = 0;
  first.OnReady([&](const absl::StatusOr<int>&) { seen = second.Get(); });
  second = first.AndThen([](int value) -> absl::StatusOr<int> { return value + 1; });
  state->Set(1);
  EXPECT_THAT(seen, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(second.Get(), IsOkAndHolds(2));
}

}  // namespace
}  // namespace paceline
