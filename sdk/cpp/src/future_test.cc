#include "paceline/future.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
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

}  // namespace
}  // namespace paceline
