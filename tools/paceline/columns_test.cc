#include "tools/paceline/columns.h"

#include <gtest/gtest.h>

namespace paceline::tool {
namespace {

TEST(ColumnsTest, AlignsToTheWidestCell) {
  Columns columns({"NAME", ">ROWS", "STATE"});
  columns.Add({"shard-0", "7", "alive"});
  columns.Add({"s", "12345", ""});
  EXPECT_EQ(columns.Text(),
            "  NAME      ROWS  STATE\n"
            "  shard-0      7  alive\n"
            "  s        12345\n");
}

TEST(ColumnsTest, CountsCharactersAndShowsNoControlCharacters) {
  Columns columns({"A", "B"});
  columns.Add({"é…", "1"});
  columns.Add({"x\ny\x1b", "2"});
  EXPECT_EQ(columns.Text(),
            "  A           B\n"
            "  é…          1\n"
            "  x\\x0ay\\x1b  2\n");
}

TEST(ColumnsTest, CutsLongCellsBetweenCharacters) {
  Columns columns({"A"});
  std::string cell, shown = "  A\n  ";
  for (int i = 0; i < 90; ++i) cell += "é";
  for (int i = 0; i < 72; ++i) shown += "é";
  columns.Add({cell});
  EXPECT_EQ(columns.Text(), shown + "…\n");
}

TEST(ColumnsTest, FillsUpAShortRow) {
  Columns columns({"A", "B"});
  columns.Add({"1"});
  EXPECT_EQ(columns.Text(), "  A  B\n  1\n");
}

}  // namespace
}  // namespace paceline::tool
