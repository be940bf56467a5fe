#include "examples/sparse_lr/libsvm.h"

#include <cstdio>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Dataset Parsed(absl::string_view text, RowFilter filter = {}) {
  absl::StatusOr<Dataset> data = ParseLibsvm(text, "text", filter);
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : Dataset();
}

std::string ErrorOf(absl::string_view text) {
  absl::StatusOr<Dataset> data = ParseLibsvm(text, "data.libsvm");
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(data.status().message());
}

TEST(LibsvmTest, ParsesRows) {
  const Dataset data = Parsed("+1 1:0.5 7:-2e-3\n-1 3:4\n");
  EXPECT_THAT(data.row_begin, ElementsAre(0, 2, 3));
  EXPECT_THAT(data.columns, ElementsAre(1, 7, 3));
  EXPECT_THAT(data.values, ElementsAre(0.5f, -2e-3f, 4.0f));
  EXPECT_THAT(data.labels, ElementsAre(1.0f, 0.0f));
  EXPECT_EQ(data.column_count, 8u);
  EXPECT_EQ(data.rows(), 2u);
  EXPECT_EQ(data.nonzeros(), 3u);
}

TEST(LibsvmTest, TakesEveryFormOfLabel) {
  EXPECT_THAT(Parsed("1\n+1\n0\n-1\n1.0\n-1.0\n").labels, ElementsAre(1, 1, 0, 0, 1, 0));
}

TEST(LibsvmTest, StepsOverCommentsBlankLinesAndBlanks) {
  const Dataset data = Parsed("# header\n\n  \r\n +1 2:1\t3:1   # why\r\n-1 0:1");
  EXPECT_THAT(data.labels, ElementsAre(1, 0));
  EXPECT_THAT(data.columns, ElementsAre(2, 3, 0));
}

TEST(LibsvmTest, AnEmptyTextIsAnEmptyDataset) {
  const Dataset data = Parsed("");
  EXPECT_EQ(data.rows(), 0u);
  EXPECT_EQ(data.column_count, 0u);
  EXPECT_THAT(data.row_begin, ElementsAre(0));
}

TEST(LibsvmTest, ARowMayBeEmpty) {
  EXPECT_THAT(Parsed("1\n0 5:1\n1\n").row_begin, ElementsAre(0, 0, 1, 1));
}

TEST(LibsvmTest, LargestColumn) {
  EXPECT_EQ(Parsed("1 4294967294:1\n").column_count, 4294967295u);
  EXPECT_THAT(ErrorOf("1 4294967295:1\n"), HasSubstr("column from 0 to 4294967294"));
}

TEST(LibsvmTest, FilterTakesEveryModulusthRow) {
  const std::string text = "1 10:1\n\n1 11:1\n1 12:1\n# no row\n1 13:1\n1 14:1\n";
  EXPECT_THAT(Parsed(text, {.modulus = 2, .remainder = 0}).columns, ElementsAre(10, 12, 14));
  EXPECT_THAT(Parsed(text, {.modulus = 2, .remainder = 1}).columns, ElementsAre(11, 13));
  EXPECT_THAT(Parsed(text, {.modulus = 9, .remainder = 7}).columns, IsEmpty());
}

TEST(LibsvmTest, RefusesAnImpossibleFilter) {
  EXPECT_FALSE(ParseLibsvm("", "text", {.modulus = 2, .remainder = 2}).ok());
  EXPECT_FALSE(ParseLibsvm("", "text", {.modulus = 0, .remainder = 0}).ok());
}

TEST(LibsvmTest, ErrorsNameLineExpectationAndFinding) {
  EXPECT_EQ(ErrorOf("1 1:1\n\n2 1:1\n"),
            "data.libsvm:3: expected a label, one of +1, 1, 0 and -1, found '2'");
  EXPECT_THAT(ErrorOf("yes 1:1"), HasSubstr(":1: expected a label"));
  EXPECT_THAT(ErrorOf("+-1 1:1"), HasSubstr("found '+-1'"));
  EXPECT_THAT(ErrorOf("1 1"), HasSubstr("expected column:value"));
  EXPECT_THAT(ErrorOf("1 -1:1"), HasSubstr("found '-1:1'"));
  EXPECT_THAT(ErrorOf("1 1:"),
              HasSubstr("a finite number as the value of column 1, found the end of the line"));
  EXPECT_THAT(ErrorOf("1 1:x"), HasSubstr("found 'x'"));
  EXPECT_THAT(ErrorOf("1 1:1x"), HasSubstr("found '1x'"));
  EXPECT_THAT(ErrorOf("1 1:nan"), HasSubstr("finite"));
  EXPECT_THAT(ErrorOf("1 1:1e99"), HasSubstr("finite"));
  EXPECT_THAT(ErrorOf("1 3:1 3:1"), HasSubstr("a column above 3"));
  EXPECT_THAT(ErrorOf("1 3:1 2:1"), HasSubstr("found '2:1'"));
}

TEST(LibsvmTest, ErrorsShowOddBytesSafely) {
  EXPECT_THAT(ErrorOf("1 \x01:1"), HasSubstr("\\x01"));
  EXPECT_THAT(ErrorOf(std::string(500, 'x')), HasSubstr("xx…'"));
}

TEST(LibsvmTest, ReadsAFile) {
  const std::string path = ::testing::TempDir() + "/libsvm_test.libsvm";
  std::ofstream(path) << "1 1:1\n0 2:2\n";
  absl::StatusOr<Dataset> data = ReadLibsvm(path);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->columns, ElementsAre(1, 2));
  std::ofstream(path) << "1 1:1\n0 2:two\n";
  EXPECT_THAT(ReadLibsvm(path).status().message(), HasSubstr(path + ":2: expected"));
  std::remove(path.c_str());
}

TEST(LibsvmTest, ReadsAFileLargerThanOneReadingStep) {
  const std::string path = ::testing::TempDir() + "/libsvm_test_large.libsvm";
  constexpr int kRows = 300'000;  // 5.4 MB
  {
    std::ofstream out(path);
    for (int i = 0; i < kRows; ++i) {
      out << "+1 " << 100'000 + i << ":0.25000\n";
    }
  }
  absl::StatusOr<Dataset> data = ReadLibsvm(path);
  std::remove(path.c_str());
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->rows(), static_cast<size_t>(kRows));
  EXPECT_EQ(data->columns.back(), 100'000u + kRows - 1);
}

TEST(LibsvmTest, NamesAMissingFile) {
  const absl::Status status = ReadLibsvm("/nowhere/data.libsvm").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/data.libsvm"));
}

TEST(LibsvmTest, ADirectoryIsNoDataFile) {
  EXPECT_FALSE(ReadLibsvm(::testing::TempDir()).ok());
}

}  // namespace
}  // namespace paceline::examples
