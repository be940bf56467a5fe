#include "libs/base/varint.h"

#include <limits>

#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

std::string Encoded(uint64_t value) {
  std::string out;
  AppendVarint(value, out);
  return out;
}

TEST(VarintTest, KnownEncodings) {
  EXPECT_EQ(Encoded(0), std::string("\0", 1));
  EXPECT_EQ(Encoded(127), "\x7f");
  EXPECT_EQ(Encoded(128), "\x80\x01");
  EXPECT_EQ(Encoded(300), "\xac\x02");
  EXPECT_EQ(Encoded(std::numeric_limits<uint64_t>::max()), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(VarintTest, ReadsBackWhatItWroteAroundEveryPowerOfTwo) {
  for (int bit = 0; bit < 64; ++bit) {
    for (uint64_t value : {(uint64_t{1} << bit) - 1, uint64_t{1} << bit, (uint64_t{1} << bit) + 1}) {
      std::string bytes = Encoded(value);
      EXPECT_EQ(bytes.size(), VarintSize(value)) << value;
      bytes += "rest";
      std::string_view in = bytes;
      EXPECT_THAT(TakeVarint(in), IsOkAndHolds(value));
      EXPECT_EQ(in, "rest");
    }
  }
}

TEST(VarintTest, EveryProperPrefixIsCutOff) {
  const std::string bytes = Encoded(std::numeric_limits<uint64_t>::max());
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::string_view in = std::string_view(bytes).substr(0, n);
    EXPECT_THAT(TakeVarint(in), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("cut off")));
    EXPECT_EQ(in.size(), n) << "input must stay where it was";
  }
}

TEST(VarintTest, RefusesNumbersThatDoNotFit) {
  for (const char* bytes :
       {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"}) {
    std::string_view in = bytes;
    EXPECT_THAT(TakeVarint(in), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 bits")));
    EXPECT_EQ(in, bytes);
  }
}

TEST(VarintTest, RefusesPaddedForms) {
  for (std::string_view bytes : {std::string_view("\x80\0", 2), std::string_view("\xff\x80\0", 3)}) {
    std::string_view in = bytes;
    EXPECT_THAT(TakeVarint(in), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shortest")));
    EXPECT_EQ(in, bytes);
  }
}

}  // namespace
}  // namespace paceline
