#include "libs/base/test_util/status_matchers.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointee;

const absl::StatusOr<int> kNumber = 7;
const absl::StatusOr<int> kMissing = absl::NotFoundError("no such table: weights");

template <class M, class T>
std::string Explain(const M& matcher, const T& value) {
  ::testing::StringMatchResultListener listener;
  ::testing::SafeMatcherCast<const T&>(matcher).MatchAndExplain(value, &listener);
  return listener.str();
}

TEST(StatusMatchersTest, IsOk) {
  EXPECT_THAT(absl::OkStatus(), IsOk());
  EXPECT_THAT(kNumber, IsOk());
  EXPECT_THAT(kMissing, Not(IsOk()));
  EXPECT_THAT(absl::InternalError(""), Not(IsOk()));
}

TEST(StatusMatchersTest, StatusIs) {
  EXPECT_THAT(kMissing, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(kMissing, StatusIs(absl::StatusCode::kNotFound, HasSubstr("weights")));
  EXPECT_THAT(kMissing, Not(StatusIs(absl::StatusCode::kNotFound, HasSubstr("biases"))));
  EXPECT_THAT(kMissing, Not(StatusIs(absl::StatusCode::kInternal)));
  EXPECT_THAT(kNumber, StatusIs(absl::StatusCode::kOk));
  EXPECT_THAT(absl::AbortedError("x"), StatusIs(absl::StatusCode::kAborted, "x"));
}

TEST(StatusMatchersTest, IsOkAndHolds) {
  EXPECT_THAT(kNumber, IsOkAndHolds(7));
  EXPECT_THAT(kNumber, IsOkAndHolds(::testing::Gt(6)));
  EXPECT_THAT(kNumber, Not(IsOkAndHolds(8)));
  EXPECT_THAT(kMissing, Not(IsOkAndHolds(7)));
  EXPECT_THAT(absl::StatusOr<std::string>("abc"), IsOkAndHolds("abc"));
  EXPECT_THAT(absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(3)), IsOkAndHolds(Pointee(3)));
}

TEST(StatusMatchersTest, FailuresShowTheStatus) {
  EXPECT_THAT(Explain(IsOk(), kMissing), HasSubstr("NOT_FOUND: no such table: weights"));
  EXPECT_THAT(Explain(IsOkAndHolds(7), kMissing), HasSubstr("NOT_FOUND"));
}

}  // namespace
}  // namespace paceline::testing
