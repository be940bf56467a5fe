// How a client opens its session and its tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::CoreHarness;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

TEST(Opening, TakesTheMapWholeToo) {
  CoreHarness h;
  h.coordinator.compact_maps = false;
  ASSERT_THAT(h.Open(), IsOk());
  EXPECT_EQ(h.core->routes()->map.version(), MapVersion(1));
}

TEST(Opening, ACompactMapThatCannotBeReadIsToldWithItsCoordinator) {
  CoreHarness h;
  h.coordinator.broken_maps = true;
  EXPECT_THAT(h.Open(), StatusIs(absl::StatusCode::kInternal,
                                 ::testing::AllOf(HasSubstr("coordinator:1"), HasSubstr("compact map"))));
}

TEST(Opening, WaitsForTheCoordinatorAndGivesUpInTime) {
  CoreHarness h;
  h.coordinator.failure = absl::UnavailableError("connection refused");
  std::optional<absl::Status> opened;
  h.Enter([&] { h.core->Open([&](absl::Status status) { opened = status; }); });
  h.Advance(absl::Seconds(59));
  EXPECT_FALSE(opened.has_value());
  EXPECT_GT(h.coordinator.opens, 10);
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(*opened,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("coordinator:1: connection refused")));
}

TEST(Opening, IsTriedAgainAsOftenAsTheOptionsSay) {
  const auto tries = [](BackoffPolicy backoff) {
    CoreHarness h({.backoff = backoff});
    h.coordinator.failure = absl::UnavailableError("connection refused");
    h.Enter([&] { h.core->Open([](const absl::Status&) {}); });
    h.Advance(absl::Seconds(30));
    return h.coordinator.opens;
  };
  // Pauses of half to all of 1, 2, 4, 4 … seconds.
  EXPECT_THAT(tries({.initial = absl::Seconds(1), .max = absl::Seconds(4)}), ::testing::AllOf(Ge(8), Le(17)));
  EXPECT_THAT(tries({.initial = absl::Seconds(10), .max = absl::Seconds(10)}),
              ::testing::AllOf(Ge(4), Le(7)));
}

TEST(Opening, TheCauseThatTheCoordinatorNamedIsNotLostWithTheLastTry) {
  CoreHarness h;
  h.coordinator.hold_joins = true;
  std::optional<absl::Status> opened;
  h.Enter([&] { h.core->Open([&](absl::Status status) { opened = status; }); });
  h.Advance(Session::Options().start_timeout - absl::Seconds(1));
  h.coordinator.EndJoins(absl::DeadlineExceededError("1 of 2 workers are there"));
  h.Advance(absl::Seconds(1));
  EXPECT_FALSE(opened.has_value());
  EXPECT_EQ(h.coordinator.joins, 2) << "there is time for another";
  h.coordinator.EndJoins(absl::DeadlineExceededError("Deadline Exceeded"));  // as a call without an answer
  h.Run();
  ASSERT_TRUE(opened.has_value());
  EXPECT_THAT(*opened, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("1 of 2 workers are there")));
}

TEST(Opening, ADeadlineOfTheCoordinatorsOwnIsNoReasonToGiveUp) {
  CoreHarness h;
  h.coordinator.hold_joins = true;
  std::optional<absl::Status> opened;
  h.Enter([&] { h.core->Open([&](absl::Status status) { opened = status; }); });
  h.Advance(absl::Seconds(10));
  h.coordinator.hold_joins = false;
  h.coordinator.EndJoins(absl::DeadlineExceededError("etcd: no answer within 5s"));
  h.Advance(absl::Seconds(10));
  ASSERT_TRUE(opened.has_value());
  EXPECT_THAT(*opened, IsOk());
  EXPECT_EQ(h.coordinator.joins, 2);
}

TEST(Opening, ATableIsNotOpenedByASessionThatIsOver) {
  CoreHarness h;
  ASSERT_THAT(h.Open(), IsOk());
  h.coordinator.failure = absl::FailedPreconditionError("session 7 was closed: by a test");
  const auto over =
      StatusIs(absl::StatusCode::kAborted, HasSubstr("session 7 was closed: by a test; connect again"));
  EXPECT_THAT(h.OpenTable("w", {.dim = 1}), over);
  EXPECT_THAT(h.core->failure(), over) << "everything else ends the same way";
  EXPECT_THAT(h.Tick(), over);
}

TEST(Opening, ARefusalIsReturnedAsItIs) {
  CoreHarness h;
  h.coordinator.failure = absl::PermissionDeniedError("no such job for you");
  EXPECT_THAT(h.Open(), StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace paceline::sdk
