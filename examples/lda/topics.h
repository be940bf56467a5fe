#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "examples/lda/corpus.h"
#include "examples/lib/random.h"

namespace paceline::examples {

// The arithmetic of latent Dirichlet allocation by collapsed Gibbs sampling, the same for the job's workers
// and for the reference in one process (Griffiths, Steyvers: Finding scientific topics. PNAS 101, 2004). Each
// token has a topic; the model is how many tokens of each word, and of all words, each topic has.
struct TopicShape {
  size_t topics = 50;
  size_t words = 0;    // of the vocabulary
  float alpha = 0.1f;  // of the Dirichlet prior of topics in a document
  float beta = 0.01f;  // of words in a topic
};

// The counts, `topics` of them a row. They are whole numbers, which an f32 holds exactly up to 16,777,216; a
// row read while other workers sample may lack some of their latest changes. Not owned.
struct TopicCounts {
  absl::Span<float> words;   // row after row
  absl::Span<float> totals;  // over all words
};

// Draws topics. For one thread.
class TopicSampler {
 public:
  TopicSampler(const TopicShape& shape, uint64_t seed)
      : shape_(shape),
        random_(seed),
        in_document_(shape.topics),
        inverse_(shape.topics),
        up_to_(shape.topics) {}

  // Draws the topic of each token of a document anew, given those of all other tokens, and keeps the counts.
  // `rows` are the tokens' rows in counts.words. Returns the sum of -log p of the tokens, in nats: how likely
  // the model and the document's other tokens made each. About 1 to 2 ns a token and topic.
  double Resample(absl::Span<const uint32_t> rows, absl::Span<uint16_t> topics, const TopicCounts& counts);

 private:
  void Move(uint16_t topic, float by, absl::Span<float> word, absl::Span<float> totals);
  uint16_t Draw(absl::Span<const float> word, double* sum);

  const TopicShape shape_;
  Random random_;
  std::vector<float> in_document_;  // tokens of each topic
  std::vector<float> inverse_;      // 1 / (total + words · beta) of each topic
  std::vector<float> up_to_;        // weights of the topics up to each
};

// The topics that the tokens of document d begin with, drawn by the seed, whoever samples it.
std::vector<uint16_t> FirstTopics(uint64_t seed, uint32_t d, size_t tokens, size_t topics);

// Adds tokens of these topics to the counts.
void Count(absl::Span<const uint32_t> rows, absl::Span<const uint16_t> topics, size_t topic_count,
           const TopicCounts& counts);

// A whole model, in memory.
struct TopicModel {
  TopicShape shape;
  std::vector<float> words;   // shape.words rows
  std::vector<float> totals;  // one row

  TopicCounts counts() { return {absl::MakeSpan(words), absl::MakeSpan(totals)}; }
};

// Whether the model is that of `tokens` tokens: whole numbers of at least 0 that add up. An error says what
// is wrong.
absl::Status CheckCounts(const TopicModel& model, uint64_t tokens);

// How many equally likely words are as hard to guess as those of documents that were held out (document
// completion): half of a document's tokens, drawn by the seed, show its topics, and the other half is
// predicted. Smaller is better. 0 if there is nothing to predict.
double CompletionPerplexity(const TopicModel& model, const Corpus& corpus,
                            absl::Span<const uint32_t> documents, uint64_t seed);

// The same of a model without topics, that knows the words' frequencies in `train`.
double UnigramPerplexity(const TopicShape& shape, const Corpus& corpus, absl::Span<const uint32_t> train,
                         absl::Span<const uint32_t> documents, uint64_t seed);

// One line a topic, the largest first: its share of the tokens and its most frequent words, at most `top`. A
// word is that of the vocabulary or, beyond its end, its number.
std::string TopicsText(const TopicModel& model, absl::Span<const std::string> vocabulary, size_t top);

}  // namespace paceline::examples
