#include "examples/lda/topics.h"

#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;

TopicModel Empty(const TopicShape& shape) {
  return {.shape = shape,
          .words = std::vector<float>(shape.words * shape.topics),
          .totals = std::vector<float>(shape.topics)};
}

// The chain visits each state as often as its probability: that of all topics of a tiny corpus, computed
// outright.
TEST(TopicSamplerTest, VisitsEachAssignmentAsOftenAsItIsLikely) {
  const TopicShape shape{.topics = 2, .words = 2, .alpha = 0.7f, .beta = 0.4f};
  const std::vector<std::vector<uint32_t>> documents = {{0, 0, 1}, {1}};
  const auto log_likelihood = [&](uint32_t state) {  // a bit a token
    std::vector<std::vector<double>> of_word(2, std::vector<double>(2)), in_document = of_word;
    uint32_t bit = 0;
    for (size_t d = 0; d < documents.size(); ++d) {
      for (const uint32_t word : documents[d]) {
        const uint32_t topic = state >> bit++ & 1;
        ++of_word[topic][word];
        ++in_document[d][topic];
      }
    }
    double sum = 0;
    for (size_t k = 0; k < 2; ++k) {
      for (size_t w = 0; w < 2; ++w) sum += std::lgamma(of_word[k][w] + 0.4);
      sum -= std::lgamma(of_word[k][0] + of_word[k][1] + 0.8);
      for (size_t d = 0; d < 2; ++d) sum += std::lgamma(in_document[d][k] + 0.7);
    }
    return sum;
  };
  double all = 0;
  for (uint32_t state = 0; state < 16; ++state) all += std::exp(log_likelihood(state));

  TopicModel model = Empty(shape);
  std::vector<std::vector<uint16_t>> topics = {{0, 0, 0}, {0}};
  for (size_t d = 0; d < 2; ++d) Count(documents[d], topics[d], 2, model.counts());
  TopicSampler sampler(shape, 5);
  constexpr int kSweeps = 200'000;
  std::map<uint32_t, int> visits;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    uint32_t state = 0, bit = 0;
    for (size_t d = 0; d < 2; ++d) {
      sampler.Resample(documents[d], absl::MakeSpan(topics[d]), model.counts());
      for (const uint16_t topic : topics[d]) state |= static_cast<uint32_t>(topic) << bit++;
    }
    ++visits[state];
  }
  for (uint32_t state = 0; state < 16; ++state) {
    EXPECT_NEAR(visits[state] / double{kSweeps}, std::exp(log_likelihood(state)) / all, 0.006) << state;
  }
  EXPECT_TRUE(CheckCounts(model, 4).ok());
}

TEST(TopicSamplerTest, TheLossIsThatOfTheOtherTokens) {
  const TopicShape shape{.topics = 1, .words = 4, .alpha = 0.5f, .beta = 0.25f};
  TopicModel model = Empty(shape);
  const std::vector<uint32_t> document = {2, 2, 3};
  std::vector<uint16_t> topics(3);
  Count(document, topics, 1, model.counts());
  // With one topic a token's probability is (others of its word + beta) / (all others + 4 · beta).
  EXPECT_NEAR(TopicSampler(shape, 1).Resample(document, absl::MakeSpan(topics), model.counts()),
              -2 * std::log(1.25 / 3) - std::log(0.25 / 3), 1e-5);
}

TEST(TopicSamplerTest, CountsBelow0AreTakenFor0) {
  const TopicShape shape{.topics = 3, .words = 1};
  std::vector<float> words = {-5, -5, -5}, totals = {-5, -5, -5};
  std::vector<uint16_t> topics = {0, 1};
  const double nats = TopicSampler(shape, 1).Resample({0, 0}, absl::MakeSpan(topics),
                                                      {absl::MakeSpan(words), absl::MakeSpan(totals)});
  EXPECT_TRUE(std::isfinite(nats));
}

TEST(FirstTopicsTest, FollowSeedAndDocument) {
  EXPECT_EQ(FirstTopics(1, 2, 50, 10), FirstTopics(1, 2, 50, 10));
  EXPECT_NE(FirstTopics(1, 2, 50, 10), FirstTopics(1, 3, 50, 10));
  EXPECT_NE(FirstTopics(1, 2, 50, 10), FirstTopics(2, 2, 50, 10));
  for (const uint16_t topic : FirstTopics(1, 2, 500, 10)) EXPECT_LT(topic, 10);
}

TEST(CheckCountsTest, SaysWhatDoesNotAddUp) {
  TopicModel model = Empty({.topics = 2, .words = 2});
  model.words = {1, 2, 3, 0};
  model.totals = {4, 2};
  EXPECT_TRUE(CheckCounts(model, 6).ok());
  EXPECT_THAT(std::string(CheckCounts(model, 7).message()), HasSubstr("have 6 tokens, the documents 7"));
  model.totals[1] = 3;
  EXPECT_THAT(std::string(CheckCounts(model, 6).message()),
              HasSubstr("topic 1 has 3 tokens, and 2 by its words"));
  model.words[2] = -1;
  EXPECT_THAT(std::string(CheckCounts(model, 6).message()), HasSubstr("word 1 has -1 tokens of topic 0"));
}

TEST(PerplexityTest, KnowsTheTopicsOfWhatIsShown) {
  // Two topics of two words each; documents are of one of them.
  TopicModel model = Empty({.topics = 2, .words = 4, .alpha = 0.01f, .beta = 0.001f});
  model.words = {50, 0, 50, 0, 0, 50, 0, 50};
  model.totals = {100, 100};
  const Corpus corpus = ParseCorpus("2 0:20 1:20\n2 2:20 3:20\n1 0:1\n", "text").value();
  EXPECT_NEAR(CompletionPerplexity(model, corpus, {0, 1, 2}, 1), 2, 0.02);
  EXPECT_NEAR(UnigramPerplexity(model.shape, corpus, {0, 1}, {0, 1, 2}, 1), 4, 0.02);
  EXPECT_EQ(CompletionPerplexity(model, corpus, {2}, 1), 0) << "a single word cannot be halved";
}

TEST(TopicsTextTest, LargestFirst) {
  TopicModel model = Empty({.topics = 2, .words = 3});
  model.words = {1, 0, 0, 5, 0, 4};
  model.totals = {1, 9};
  const std::vector<std::string> vocabulary = {"ape", "bee"};
  EXPECT_THAT(TopicsText(model, vocabulary, 2), HasSubstr("\n1 0.9000 bee 2\n0 0.1000 ape\n"));
}

}  // namespace
}  // namespace paceline::examples
