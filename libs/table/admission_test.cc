#include "libs/table/admission.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::table {
namespace {

using ::absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Schema kSparse = {.dim = 3};
const Schema kRanged = {.kind = Kind::kRanged, .dim = 2, .rows = 10};

TEST(AdmissionTest, TakesUpdatesThatFit) {
  const std::vector<uint64_t> keys = {0, ~uint64_t{0}};
  EXPECT_THAT(CheckUpdate(kSparse, keys, std::vector<float>(6)), IsOk());
  EXPECT_THAT(CheckUpdate(kSparse, KeyView(), ValueView()), IsOk());
  EXPECT_THAT(CheckKeys(kSparse, keys), IsOk());
  EXPECT_THAT(CheckRangeUpdate(kRanged, 0, 10, std::vector<float>(20)), IsOk());
  EXPECT_THAT(CheckRangeUpdate(kRanged, 10, 0, ValueView()), IsOk());
}

TEST(AdmissionTest, RefusesTheWrongWidth) {
  const std::vector<uint64_t> keys = {4, 5};
  for (const size_t count : {0, 5, 7, 3, 9}) {
    EXPECT_THAT(CheckUpdate(kSparse, keys, std::vector<float>(count)),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("values: there are"), HasSubstr("for 2 keys; expected 3"))));
  }
  EXPECT_THAT(CheckRangeUpdate(kRanged, 2, 3, std::vector<float>(5)), StatusIs(StatusCode::kInvalidArgument));
}

TEST(AdmissionTest, RefusesKeysBeyondTheEnd) {
  const std::vector<uint64_t> keys = {9, 10};
  EXPECT_THAT(CheckUpdate(kRanged, keys, std::vector<float>(4)),
              StatusIs(StatusCode::kOutOfRange, AllOf(HasSubstr("keys: 10"), HasSubstr("expected 0 .. 9"))));
  EXPECT_THAT(CheckKeys(kRanged, keys), StatusIs(StatusCode::kOutOfRange));
  EXPECT_THAT(CheckRange(kRanged, 8, 2), IsOk());
  EXPECT_THAT(CheckRange(kRanged, 8, 3), StatusIs(StatusCode::kOutOfRange, HasSubstr("keys: 10")));
  EXPECT_THAT(CheckRange(kRanged, 11, 0), StatusIs(StatusCode::kOutOfRange, HasSubstr("keys: 11")));
  EXPECT_THAT(CheckRange(kRanged, 1, ~uint64_t{0}), StatusIs(StatusCode::kOutOfRange));
  EXPECT_THAT(CheckRange(kSparse, 0, 1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("sparse")));
}

TEST(AdmissionTest, RefusesValuesThatAreNotFinite) {
  for (const float bad : {kInf, -kInf, kNan, -kNan}) {
    for (size_t at = 0; at < 30; ++at) {
      std::vector<float> values(30, std::numeric_limits<float>::max());
      values[at] = bad;
      const std::vector<uint64_t> keys(10, 1);
      EXPECT_THAT(CheckUpdate(kSparse, keys, values),
                  StatusIs(StatusCode::kInvalidArgument, HasSubstr("row " + std::to_string(at / 3) +
                                                                   ", column " + std::to_string(at % 3))));
    }
  }
}

TEST(AdmissionTest, TakesValuesThatAreNotFiniteWhereAllowed) {
  Schema schema = kSparse;
  schema.accept_non_finite = true;
  const std::vector<uint64_t> keys = {1};
  EXPECT_THAT(CheckUpdate(schema, keys, std::vector<float>{kInf, kNan, -kInf}), IsOk());
}

}  // namespace
}  // namespace paceline::table
