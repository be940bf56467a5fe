#include "libs/base/version.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(VersionTest, HasThreeNumbers) {
  EXPECT_THAT(std::string(kVersion), ::testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
}

}  // namespace
}  // namespace paceline
