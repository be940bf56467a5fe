#include "examples/lda/corpus.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Corpus Parsed(absl::string_view text) {
  const absl::StatusOr<Corpus> corpus = ParseCorpus(text, "text");
  EXPECT_TRUE(corpus.ok()) << corpus.status();
  return corpus.ok() ? *corpus : Corpus();
}

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseCorpus(text, "docs").status().message());
}

TEST(ParseCorpusTest, AWordStandsAsOftenAsItOccurs) {
  const Corpus corpus = Parsed("2 3:2 0:1  # a comment\n\n0\n1 5:3\n");
  ASSERT_EQ(corpus.documents(), 3u);
  EXPECT_THAT(corpus.document(0), ElementsAre(3, 3, 0));
  EXPECT_THAT(corpus.document(1), IsEmpty());
  EXPECT_THAT(corpus.document(2), ElementsAre(5, 5, 5));
  EXPECT_EQ(corpus.words, 6u);
  EXPECT_EQ(TokensOf(corpus, {0, 2}), 6u);
}

TEST(ParseCorpusTest, ErrorsNameLineAndWord) {
  EXPECT_EQ(ErrorOf("1 0:1\nx"), "docs:2: expected the number of different words, found 'x'");
  EXPECT_EQ(ErrorOf("2 0:1"), "docs:1: expected 1, the number of `id:count` that follow, found '2'");
  for (const char* wrong :
       {"1 0", "1 0:", "1 0:0", "1 0:1000001", "1 -1:1", "1 0:1x", "1 4294967295:1", "1 :1"}) {
    EXPECT_THAT(ErrorOf(wrong), HasSubstr("docs:1: expected id:count with a count from 1 to 1000000, found"))
        << wrong;
  }
  EXPECT_THAT(ErrorOf("3 1:1 2:1 1:2"), HasSubstr("found word 1 twice"));
}

TEST(SplitTest, HoldsOutAShareThatFollowsTheSeed) {
  std::string text;
  for (int d = 0; d < 100; ++d) absl::StrAppend(&text, "1 ", d, ":1\n");
  const Corpus corpus = Parsed(text);
  const SplitDocuments split = Split(corpus, 0.1, 1);
  EXPECT_EQ(split.test.size(), 10u);
  EXPECT_EQ(Split(corpus, 0.1, 1).test, split.test);
  EXPECT_NE(Split(corpus, 0.1, 2).test, split.test);
  std::vector<uint32_t> all = split.train;
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::sort(all.begin(), all.end());
  for (uint32_t d = 0; d < 100; ++d) EXPECT_EQ(all[d], d);
  EXPECT_TRUE(Split(Corpus(), 0.5, 1).train.empty());
}

}  // namespace
}  // namespace paceline::examples
