#include "tools/paceline/reduce.h"

#include <limits>

#include "gtest/gtest.h"

namespace paceline::tool {
namespace {

TEST(Reduce, RangesOfKeys) {
  EXPECT_FALSE(ParseKeyRange("")->count.has_value());
  EXPECT_EQ(ParseKeyRange("5:9")->first, 5u);
  EXPECT_EQ(ParseKeyRange("5:9")->count, 4u);
  EXPECT_EQ(ParseKeyRange(":9")->count, 9u);
  EXPECT_EQ(ParseKeyRange("7:")->first, 7u);
  EXPECT_FALSE(ParseKeyRange("7:")->count.has_value());
  for (const char* wrong : {"5", "9:5", "5:5", "a:b", "1:2:3", "-1:4", ":0"}) {
    EXPECT_EQ(ParseKeyRange(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(Reduce, TextAndJson) {
  ReduceCommand command;
  command.rows.job = "ctr";
  command.rows.table = "w";
  command.op = "sum";
  const Reduced reduced{.value = -0.5, .rows = 3, .values = 6};
  EXPECT_EQ(ReducedText(command, reduced), "sum: -0.5, of 6 values in 3 rows\n");
  EXPECT_EQ(
      ReducedJson(command, reduced),
      "{\n \"job\": \"ctr\",\n \"table\": \"w\",\n \"op\": \"sum\",\n \"value\": -0.5,\n \"rows\": 3,\n "
      "\"values\": 6\n}\n");
  const Reduced nan{.value = std::numeric_limits<double>::quiet_NaN(), .rows = 1, .values = 1};
  EXPECT_NE(ReducedJson(command, nan).find("\"value\": null"), std::string::npos);
  EXPECT_EQ(TopText({{.key = 7, .column = 1, .value = 2.5f}}),
            "                   KEY  COLUMN  VALUE\n                     7       1  2.5\n");
  command.op = "top";
  EXPECT_NE(TopJson(command, {{.key = 7, .column = 1, .value = 2.5f}}).find("\"key\": 7"), std::string::npos);
  EXPECT_NE(TopJson(command, {}).find("\"top\": []"), std::string::npos);
}

}  // namespace
}  // namespace paceline::tool
