#include "examples/lda/reference.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

// 120 documents, each of words of two of five topics; a topic has eight words of its own.
Corpus Documents() {
  std::string text;
  Random random(3);
  for (int d = 0; d < 120; ++d) {
    std::vector<int> counts(40);
    const uint64_t topics[] = {random.Below(5), random.Below(5)};
    for (int t = 0; t < 60; ++t) ++counts[8 * topics[random.Below(2)] + random.Below(8)];
    std::string words;
    int different = 0;
    for (int w = 0; w < 40; ++w) {
      if (counts[w] == 0) continue;
      absl::StrAppend(&words, " ", w, ":", counts[w]);
      ++different;
    }
    absl::StrAppend(&text, different, words, "\n");
  }
  return ParseCorpus(text, "text").value();
}

TEST(LdaReferenceTest, FindsWhatMadeTheDocuments) {
  LdaOptions options;
  options.topics = 5;
  options.sweeps = 60;
  const Corpus corpus = Documents();
  const SplitDocuments split = Split(corpus, 0.1, 1);
  const LdaReference reference = SampleReference(options, corpus, split.train);
  EXPECT_TRUE(CheckCounts(reference.model, TokensOf(corpus, split.train)).ok());
  const double perplexity = CompletionPerplexity(reference.model, corpus, split.test, 1);
  const double unigram = UnigramPerplexity(reference.model.shape, corpus, split.train, split.test, 1);
  EXPECT_GT(unigram, 36);
  EXPECT_LT(perplexity, 19) << "words of two topics are as hard to guess as 16 equally likely ones";
  EXPECT_GT(perplexity, 11);
  ASSERT_EQ(reference.curve.size(), 60u);
  EXPECT_LT(reference.curve.back().loss, reference.curve.front().loss - 0.5);
}

TEST(LdaReferenceTest, IsTheSameEveryTimeAndMovesWithTheSeed) {
  LdaOptions options;
  options.topics = 5;
  options.sweeps = 2;
  const Corpus corpus = Documents();
  const std::vector<uint32_t> documents = Split(corpus, 0.1, 1).train;
  const std::vector<float> first = SampleReference(options, corpus, documents).model.words;
  EXPECT_EQ(SampleReference(options, corpus, documents).model.words, first);
  options.seed = 2;
  EXPECT_NE(SampleReference(options, corpus, documents).model.words, first);
}

}  // namespace
}  // namespace paceline::examples
