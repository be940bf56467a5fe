#pragma once

#include <cstdint>
#include <vector>

#include "examples/lda/corpus.h"
#include "examples/lda/topics.h"

namespace paceline::examples {

// Some documents with the topics of their tokens, and their words numbered anew, as they occur in it: what is
// pulled and pushed for it. 6 bytes a token.
struct DocumentBatch {
  std::vector<uint64_t> keys;      // its words, by their numbers in the batch
  std::vector<uint64_t> begin{0};  // documents + 1 positions in `rows` and `topics`
  std::vector<uint32_t> rows;      // per token, its word's number in the batch
  std::vector<uint16_t> topics;    // per token

  size_t documents() const { return begin.size() - 1; }
  // Draws the topics of all its tokens anew; `counts` has the rows of its keys. As TopicSampler::Resample.
  double Resample(TopicSampler* sampler, const TopicCounts& counts);
};

// Makes batches of some documents. 4 bytes a word of the vocabulary. For one thread.
class BatchBuilder {
 public:
  BatchBuilder(const Corpus& corpus, size_t topics, uint64_t seed);

  // Each token has its first topic.
  DocumentBatch Build(absl::Span<const uint32_t> documents);

 private:
  const Corpus& corpus_;
  const size_t topics_;
  const uint64_t seed_;
  std::vector<uint32_t> numbers_;  // of the words, in the batch
};

// The documents of worker `rank` of `workers`, every workers-th of `documents`, in `batches` batches of
// nearly equally many documents, each token with its first topic. Some may be empty.
std::vector<DocumentBatch> BatchesOf(const Corpus& corpus, absl::Span<const uint32_t> documents,
                                     size_t workers, size_t rank, size_t batches, size_t topics,
                                     uint64_t seed);

}  // namespace paceline::examples
