#include "tools/paceline/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace paceline::tool {
namespace {

TEST(RowsTest, AreShownInColumnsHoweverManyValuesTheyHave) {
  EXPECT_EQ(RowsText({{7, {0.5f, -1}}, {1000, {2}}}),
            "   KEY  VALUES\n"
            "     7  0.5 -1\n"
            "  1000  2\n");
  const std::vector<float> many(100, 1);
  EXPECT_EQ(RowsText({{7, many}}).size(), RowsText({{7, {1}}}).size() + 2 * 99);
}

TEST(RowsTest, AreAListInJson) {
  EXPECT_EQ(RowsJson({}), "[]\n");
  EXPECT_EQ(RowsJson({{7, {0.5f, std::numeric_limits<float>::quiet_NaN()}}}),
            "[\n {\n  \"key\": 7,\n  \"values\": [\n   0.5,\n   null\n  ]\n }\n]\n");
}

}  // namespace
}  // namespace paceline::tool
