#include "libs/base/text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(TextTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Escaped("shard-0 at [::1]:7071, zone „Süd“ → ok"), "shard-0 at [::1]:7071, zone „Süd“ → ok");
  EXPECT_EQ(Escaped("a\nb\tc\x1b[2Jd\x7f"), "a\\x0ab\\x09c\\x1b[2Jd\\x7f");
  EXPECT_EQ(Escaped(absl::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Escaped("\xc2\x9b"), "\\xc2\\x9b") << "a control sequence's beginning, in one character";
  EXPECT_EQ(Escaped("a\xe2\x80\xaez"), "a\\xe2\\x80\\xaez") << "turns what follows round";
  EXPECT_EQ(Escaped("a\xe2\x80\xa8z"), "a\\xe2\\x80\\xa8z") << "an end of a line";
  EXPECT_EQ(EscapedLines("a\n\tb\x1b"), "a\n\tb\\x1b");
}

TEST(TextTest, BytesThatAreNotUtf8AreEscaped) {
  for (const char* wrong :
       {"\xff", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xf8"}) {
    EXPECT_THAT(Escaped(wrong), AllOf(HasSubstr("\\x"), Not(HasSubstr(wrong))));
    EXPECT_THAT(CheckText("zone", wrong), StatusIs(kInvalid));
  }
  EXPECT_EQ(Escaped("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
}

TEST(TextTest, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(Escaped("abcdef", 4), "abcd …");
  EXPECT_EQ(Escaped("abc→", 4), "abc …");
}

TEST(TextTest, NamesHaveFewCharacters) {
  EXPECT_THAT(CheckName("job", "team-a/ctr_v2.1:x", 20), IsOk());
  EXPECT_THAT(CheckName("job", ""), StatusIs(kInvalid, HasSubstr("job")));
  EXPECT_THAT(CheckName("job", "far too long", 5), StatusIs(kInvalid));
  EXPECT_THAT(CheckName("job", "a\n"), StatusIs(kInvalid, HasSubstr("a\\x0a")));
  EXPECT_THAT(CheckName("job", "Süd"), StatusIs(kInvalid));
}

TEST(TextTest, TextsHaveOneLine) {
  EXPECT_THAT(CheckText("zone", "anything at all, „Süd“"), IsOk());
  EXPECT_THAT(CheckText("zone", ""), IsOk());
  EXPECT_THAT(CheckText("zone", "too long", 3), StatusIs(kInvalid, AllOf(HasSubstr("zone"), HasSubstr("3"))));
  EXPECT_THAT(CheckText("reason", "two\nlines"), StatusIs(kInvalid, HasSubstr("two\\x0alines")));
}

TEST(TextTest, AddressesAreAHostAndAPort) {
  for (const char* right : {"127.0.0.1:7070", "localhost:0", "shard-0.shard.ml.svc:65535", "[::1]:1", "a_b:7",
                            "[fe80::1%eth0]:80"}) {
    EXPECT_THAT(CheckAddress("address", right), IsOk()) << right;
  }
  for (const char* wrong :
       {"", "host", "host:", ":1", "host:65536", "host:-1", "host:+1", "host: 1", "unix:/run/x", "dns:///a:1",
        "a:1,b:2", "::1:80", "a b:1", "a\n:1", "host:http", "[]:1", "a/b:1", "host:1\n", "host:000001"}) {
    EXPECT_THAT(CheckAddress("address", wrong), StatusIs(kInvalid, HasSubstr("HOST:PORT"))) << wrong;
  }
  EXPECT_THAT(CheckAddress("address", std::string(600, 'a') + ":1"), StatusIs(kInvalid));
}

}  // namespace
}  // namespace paceline
