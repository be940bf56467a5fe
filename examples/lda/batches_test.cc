#include "examples/lda/batches.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;

TEST(BatchesOfTest, NumberTheWordsThatOccur) {
  const Corpus corpus = ParseCorpus("2 7:2 3:1\n1 9:1\n2 3:1 9:1\n", "text").value();
  const std::vector<DocumentBatch> batches = BatchesOf(corpus, {2, 0, 1}, 1, 0, 2, 5, 1);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[0].keys, ElementsAre(3, 9));
  EXPECT_THAT(batches[0].rows, ElementsAre(0, 1));
  EXPECT_THAT(batches[1].keys, ElementsAre(7, 3, 9));
  EXPECT_THAT(batches[1].rows, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(batches[1].begin, ElementsAre(0, 3, 4));
  EXPECT_EQ(batches[0].topics, FirstTopics(1, 2, 2, 5));
}

TEST(BatchesOfTest, WorkersShareTheDocuments) {
  std::string text;
  for (int d = 0; d < 23; ++d) absl::StrAppend(&text, "1 ", d, ":1\n");
  const Corpus corpus = ParseCorpus(text, "text").value();
  const std::vector<uint32_t> documents = Split(corpus, 0, 3).train;
  for (const size_t workers : {1, 4, 30}) {
    std::vector<uint64_t> words;
    for (size_t rank = 0; rank < workers; ++rank) {
      const std::vector<DocumentBatch> batches = BatchesOf(corpus, documents, workers, rank, 3, 2, 1);
      ASSERT_EQ(batches.size(), 3u);
      for (const DocumentBatch& batch : batches) {
        EXPECT_LE(batch.documents(), 23 / workers / 3 + 1);
        for (const uint32_t row : batch.rows) words.push_back(batch.keys[row]);
      }
    }
    EXPECT_EQ(words.size(), documents.size());
    std::sort(words.begin(), words.end());
    EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
  }
}

TEST(DocumentBatchTest, SamplingKeepsTheCounts) {
  const Corpus corpus = ParseCorpus("2 0:5 1:3\n2 1:2 2:4\n", "text").value();
  DocumentBatch batch = BatchesOf(corpus, {0, 1}, 1, 0, 1, 4, 1).front();
  TopicModel model{
      .shape = {.topics = 4, .words = 3}, .words = std::vector<float>(12), .totals = std::vector<float>(4)};
  Count(batch.rows, batch.topics, 4, model.counts());
  TopicSampler sampler(model.shape, 1);
  for (int sweep = 0; sweep < 10; ++sweep) EXPECT_GT(batch.Resample(&sampler, model.counts()), 0);
  EXPECT_TRUE(CheckCounts(model, 14).ok());
}

}  // namespace
}  // namespace paceline::examples
