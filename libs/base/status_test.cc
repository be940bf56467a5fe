#include "libs/base/status.h"

#include <memory>

#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;

absl::Status Both(const absl::Status& first, int& reached) {
  ABSL_RETURN_IF_ERROR(first);
  ++reached;
  return absl::OkStatus();
}

absl::StatusOr<int> Sum(absl::StatusOr<int> a, absl::StatusOr<std::unique_ptr<int>> b) {
  ABSL_ASSIGN_OR_RETURN(const int left, a);
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<int> right, std::move(b));
  return left + *right;
}

TEST(StatusMacrosTest, ReturnIfErrorGoesOnOnlyWhenOk) {
  int reached = 0;
  EXPECT_THAT(Both(absl::OkStatus(), reached), IsOk());
  EXPECT_EQ(reached, 1);
  EXPECT_THAT(Both(absl::AbortedError("no"), reached), StatusIs(absl::StatusCode::kAborted, "no"));
  EXPECT_EQ(reached, 1);
}

TEST(StatusMacrosTest, AssignOrReturnTakesValuesThatOnlyMove) {
  EXPECT_THAT(Sum(1, std::make_unique<int>(2)), IsOkAndHolds(3));
  EXPECT_THAT(Sum(absl::NotFoundError("a"), std::make_unique<int>(2)),
              StatusIs(absl::StatusCode::kNotFound, "a"));
  EXPECT_THAT(Sum(1, absl::DataLossError("b")), StatusIs(absl::StatusCode::kDataLoss, "b"));
}

}  // namespace
}  // namespace paceline
