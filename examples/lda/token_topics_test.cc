#include "examples/lda/token_topics.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kTopics = 3;

// Documents of 70, 0, 5 and 32 tokens.
Corpus Documents() {
  return ParseCorpus("2 0:40 1:30\n0\n1 2:5\n2 0:1 2:31\n", "text").value();
}

TopicModel Empty(const Corpus& corpus) {
  return {.shape = {.topics = kTopics, .words = corpus.words},
          .words = std::vector<float>(corpus.words * kTopics),
          .totals = std::vector<float>(kTopics)};
}

TEST(TokenTopicsTest, EachDocumentHasRowsOfItsOwn) {
  const Corpus corpus = Documents();
  const TokenTopics places(corpus, {2, 0, 1, 3});
  EXPECT_EQ(places.rows(), 1u + 3 + 0 + 1);
  EXPECT_THAT(places.Keys(0, 1), ElementsAre(0));
  EXPECT_THAT(places.Keys(1, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(places.Keys(2, 3), IsEmpty());
  EXPECT_THAT(places.Keys(0, 4), ElementsAre(0, 1, 2, 3, 4));
}

TEST(TokenTopicsTest, WhoeverIsNextGoesOnFromThere) {
  const Corpus corpus = Documents();
  BatchBuilder builder(corpus, kTopics, 1);
  DocumentBatch batch = builder.Build({0, 1, 2, 3});
  for (size_t t = 0; t < batch.topics.size(); ++t) batch.topics[t] = static_cast<uint16_t>(t % kTopics);
  const std::vector<float> rows = TokenTopics::RowsOf(batch);
  EXPECT_EQ(rows.size(), 5 * TokenTopics::kTokens);
  DocumentBatch next = builder.Build({0, 1, 2, 3});
  TopicModel model = Empty(corpus);
  ASSERT_TRUE(TokenTopics::Take(rows, kTopics, &next, model.counts()).ok());
  EXPECT_EQ(next.topics, batch.topics);
  EXPECT_THAT(model.words, Each(0)) << "they are counted";
}

// As it is after a worker was killed amid its first push of a document.
TEST(TokenTopicsTest, TokensWithoutATopicAreCountedWhenTheyGetTheirFirst) {
  const Corpus corpus = Documents();
  BatchBuilder builder(corpus, kTopics, 1);
  const DocumentBatch first = builder.Build({0, 3});
  std::vector<float> rows(4 * TokenTopics::kTokens);
  for (size_t t = 0; t < TokenTopics::kTokens; ++t) rows[t] = 2;  // topic 1
  DocumentBatch batch = first;
  TopicModel model = Empty(corpus);
  ASSERT_TRUE(TokenTopics::Take(rows, kTopics, &batch, model.counts()).ok());
  for (size_t t = 0; t < batch.topics.size(); ++t) {
    EXPECT_EQ(batch.topics[t], t < TokenTopics::kTokens ? 1 : first.topics[t]) << t;
  }
  EXPECT_EQ(std::accumulate(model.totals.begin(), model.totals.end(), 0.0f),
            70 + 32 - static_cast<float>(TokenTopics::kTokens));
}

TEST(TokenTopicsTest, RowsOfSomethingElseAreRefused) {
  const Corpus corpus = Documents();
  DocumentBatch batch = BatchBuilder(corpus, kTopics, 1).Build({2});
  TopicModel model = Empty(corpus);
  std::vector<float> rows(TokenTopics::kTokens, 1.0f);
  for (const float wrong : {4.0f, -1.0f, 1.5f}) {
    rows[3] = wrong;
    const absl::Status status = TokenTopics::Take(rows, kTopics, &batch, model.counts());
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected a whole number below 3")) << wrong;
  }
}

// However batches are cut and sampled, the counts are those of the rows.
TEST(TokenTopicsTest, CountsFollowTheTopics) {
  const Corpus corpus = Documents();
  const std::vector<uint32_t> documents = {3, 0, 2, 1};
  const TokenTopics places(corpus, documents);
  BatchBuilder builder(corpus, kTopics, 1);
  TopicModel model = Empty(corpus);
  std::vector<float> table(places.rows() * TokenTopics::kTokens);
  for (int sweep = 0; sweep < 4; ++sweep) {
    TopicSampler sampler(model.shape, static_cast<uint64_t>(sweep));  // another worker
    for (size_t begin = 0, end = 0; begin < documents.size(); begin = end) {
      end = std::min(documents.size(), begin + 1 + static_cast<size_t>(sweep % 3));
      DocumentBatch batch = builder.Build(absl::MakeConstSpan(documents).subspan(begin, end - begin));
      std::vector<float> words(batch.keys.size() * kTopics), rows;
      for (const uint64_t key : places.Keys(begin, end)) {
        const auto at = table.begin() + static_cast<std::ptrdiff_t>(key * TokenTopics::kTokens);
        rows.insert(rows.end(), at, at + TokenTopics::kTokens);
      }
      for (size_t i = 0; i < batch.keys.size(); ++i) {
        for (size_t k = 0; k < kTopics; ++k)
          words[i * kTopics + k] = model.words[batch.keys[i] * kTopics + k];
      }
      const TopicCounts counts{absl::MakeSpan(words), absl::MakeSpan(model.totals)};
      ASSERT_TRUE(TokenTopics::Take(rows, kTopics, &batch, counts).ok());
      batch.Resample(&sampler, counts);
      for (size_t i = 0; i < batch.keys.size(); ++i) {
        for (size_t k = 0; k < kTopics; ++k)
          model.words[batch.keys[i] * kTopics + k] = words[i * kTopics + k];
      }
      const std::vector<float> sampled = TokenTopics::RowsOf(batch);
      const std::vector<uint64_t> keys = places.Keys(begin, end);
      for (size_t i = 0; i < keys.size(); ++i) {
        std::copy_n(sampled.begin() + static_cast<std::ptrdiff_t>(i * TokenTopics::kTokens),
                    TokenTopics::kTokens,
                    table.begin() + static_cast<std::ptrdiff_t>(keys[i] * TokenTopics::kTokens));
      }
    }
    const absl::StatusOr<TopicModel> counted = CountTokens(model.shape, corpus, documents, table);
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(TokensApart(model, *counted), 0u);
    EXPECT_TRUE(CheckCounts(*counted, 107).ok());
  }
}

TEST(CountTokensTest, EveryTokenMustHaveATopic) {
  const Corpus corpus = Documents();
  std::vector<float> rows(TokenTopics::kTokens, 1.0f);
  EXPECT_TRUE(CountTokens(Empty(corpus).shape, corpus, {2}, rows).ok());
  rows[4] = 0;
  EXPECT_THAT(std::string(CountTokens(Empty(corpus).shape, corpus, {2}, rows).status().message()),
              HasSubstr("token 4 of document 2 has no topic"));
}

TEST(TokensApartTest, ATokenUnderAnotherTopicIsOne) {
  const Corpus corpus = Documents();
  TopicModel expected = Empty(corpus);
  expected.words = {4, 0, 0, 0, 3, 0, 0, 0, 2};
  expected.totals = {4, 3, 2};
  TopicModel found = expected;
  EXPECT_EQ(TokensApart(found, expected), 0u);
  found.words[0] = 3;
  found.words[1] = 1;
  EXPECT_EQ(TokensApart(found, expected), 1u);
  found.words[8] = 5;  // beside the others
  EXPECT_EQ(TokensApart(found, expected), 4u);
  found = expected;
  found.totals = {0, 7, 2};
  EXPECT_EQ(TokensApart(found, expected), 4u);
}

}  // namespace
}  // namespace paceline::examples
