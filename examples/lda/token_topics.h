#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/lda/batches.h"
#include "examples/lda/corpus.h"
#include "examples/lda/topics.h"

namespace paceline::examples {

// Where the topics of all tokens are, when workers share the documents by a queue: in rows of a table, so
// that whoever samples a document next goes on from there. A document has rows of its own, of kTokens tokens
// each: a token's topic + 1, or 0 while it has none and is in no count yet. Workers assign these rows.
class TokenTopics {
 public:
  static constexpr uint32_t kTokens = 32;  // of a row

  // Of these documents, in this order.
  TokenTopics(const Corpus& corpus, absl::Span<const uint32_t> documents);

  uint64_t rows() const { return first_row_.back(); }
  // The keys of the documents at these places of the order, begin .. end − 1, which follow each other.
  std::vector<uint64_t> Keys(size_t begin, size_t end) const;

  // Gives the tokens of a batch, of some documents in this order, the topics that their rows have. A token
  // that has none keeps its first one, and is counted now: `counts` has the rows of the batch's words.
  // DataLoss: what is there is no topic of `topics`.
  static absl::Status Take(absl::Span<const float> rows, size_t topics, DocumentBatch* batch,
                           const TopicCounts& counts);
  // The rows of the batch's topics.
  static std::vector<float> RowsOf(const DocumentBatch& batch);

 private:
  std::vector<uint64_t> first_row_;  // documents + 1
};

// The model as the rows of all documents have it. DataLoss: a token has no topic.
absl::StatusOr<TopicModel> CountTokens(const TopicShape& shape, const Corpus& corpus,
                                       absl::Span<const uint32_t> documents, absl::Span<const float> rows);

// How many tokens `found` counts under another topic than `expected`, or not at all, or beside it: the larger
// one of those that are too many and those that are missing. Of words, or of all; whichever is more.
uint64_t TokensApart(const TopicModel& found, const TopicModel& expected);

}  // namespace paceline::examples
