#include "services/coordinator/metadata/text.h"

#include "libs/base/test_util/status_matchers.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

TEST(TextTest, RangesAreShort) {
  EXPECT_EQ(Ranges({}), "");
  EXPECT_EQ(Ranges({4}), "4");
  EXPECT_EQ(Ranges({0, 1, 2, 7, 9, 10}), "0-2, 7, 9-10");
  std::set<uint32_t> odd;
  for (uint32_t n = 1; n < 100; n += 2) odd.insert(n);
  EXPECT_EQ(Ranges(odd), "1, 3, 5, 7, 9, 11, 13, 15, … (50 in all)");
}

TEST(TextTest, SecondsHaveOneDecimal) {
  EXPECT_EQ(Seconds(absl::Milliseconds(10234)), "10.2 s");
}

TEST(TextTest, NamesAreChecked) {
  EXPECT_THAT(CheckName("job", "team-a/ctr_v2.1:x", 20), IsOk());
  EXPECT_THAT(CheckName("job", "", 20), StatusIs(StatusCode::kInvalidArgument, HasSubstr("job")));
  EXPECT_THAT(CheckName("job", "far too long", 5), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckName("job", "a\n", 5), StatusIs(StatusCode::kInvalidArgument, HasSubstr("a\\n")));
  EXPECT_THAT(CheckText("zone", "anything at all", 20), IsOk());
  EXPECT_THAT(CheckText("zone", "too long", 3),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("zone: 8 bytes")));
}

}  // namespace
}  // namespace paceline::coordinator
