#include "examples/lib/text_file.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;

TEST(LinesTest, LeavesOutCommentsAndBlanks) {
  Lines lines("# header\n\n a b \r\nc # why\nd");
  absl::string_view line;
  std::vector<std::string> found;
  while (lines.Next(&line)) found.push_back(absl::StrCat(lines.number(), ":", line));
  EXPECT_THAT(found, ::testing::ElementsAre("1:", "2:", "3:a b", "4:c", "5:d"));
}

TEST(TextFileTest, WhatIsWrittenIsRead) {
  const std::string path = ::testing::TempDir() + "/text_file_test";
  const std::string text(3 << 20, 'x');
  ASSERT_TRUE(WriteFile(path, text).ok());
  const absl::StatusOr<std::string> read = ReadFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, text);
  std::remove(path.c_str());
}

TEST(TextFileTest, ErrorsNameTheFile) {
  const absl::Status unread = ReadFile("/no/such/folder/file").status();
  EXPECT_EQ(unread.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unread.message()), HasSubstr("/no/such/folder/file"));
  EXPECT_THAT(std::string(WriteFile("/no/such/folder/file", "text").message()),
              HasSubstr("/no/such/folder/file"));
}

TEST(WordAtTest, IsCutAndEscaped) {
  const std::string text = absl::StrCat(std::string(40, 'x'), " \x01");
  EXPECT_EQ(WordAt(text.data(), text.data() + text.size()), "'" + std::string(32, 'x') + "…'");
  EXPECT_EQ(WordAt(text.data() + 41, text.data() + text.size()), "'\\x01'");
  EXPECT_EQ(WordAt(text.data() + 40, text.data() + text.size()), "the end of the line");
}

}  // namespace
}  // namespace paceline::examples
