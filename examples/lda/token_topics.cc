#include "examples/lda/token_topics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace paceline::examples {
namespace {

size_t RowsFor(size_t tokens) {
  return (tokens + TokenTopics::kTokens - 1) / TokenTopics::kTokens;
}

// Calls `take` with each token's number and place in the rows, document by document.
template <class Take>
absl::Status ForEachToken(absl::Span<const uint64_t> begin, Take take) {
  size_t row = 0;
  for (size_t d = 0; d + 1 < begin.size(); ++d) {
    const uint64_t first = begin[d], length = begin[d + 1] - first;
    for (uint64_t t = 0; t < length; ++t) {
      if (absl::Status s = take(first + t, row * TokenTopics::kTokens + t); !s.ok()) return s;
    }
    row += RowsFor(length);
  }
  return absl::OkStatus();
}

// The topic that a row has; `topics` if it is none yet.
absl::StatusOr<size_t> TopicOf(float value, size_t topics) {
  if (value == 0) return topics;
  if (value >= 1 && value <= static_cast<float>(topics) && value == std::floor(value)) {
    return static_cast<size_t>(value) - 1;
  }
  return absl::DataLossError(
      absl::StrCat("a token has topic ", value - 1, ", expected a whole number below ", topics));
}

uint64_t Apart(absl::Span<const float> found, absl::Span<const float> expected) {
  double too_many = 0, missing = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double by = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    (by > 0 ? too_many : missing) += std::abs(by);
  }
  return static_cast<uint64_t>(std::max(too_many, missing));
}

}  // namespace

TokenTopics::TokenTopics(const Corpus& corpus, absl::Span<const uint32_t> documents) : first_row_{0} {
  for (const uint32_t d : documents) {
    first_row_.push_back(first_row_.back() + RowsFor(corpus.document(d).size()));
  }
}

std::vector<uint64_t> TokenTopics::Keys(size_t begin, size_t end) const {
  std::vector<uint64_t> keys(first_row_[end] - first_row_[begin]);
  std::iota(keys.begin(), keys.end(), first_row_[begin]);
  return keys;
}

absl::Status TokenTopics::Take(absl::Span<const float> rows, size_t topics, DocumentBatch* batch,
                               const TopicCounts& counts) {
  return ForEachToken(batch->begin, [&](size_t token, size_t place) {
    const absl::StatusOr<size_t> topic = TopicOf(rows[place], topics);
    if (!topic.ok()) return topic.status();
    if (*topic < topics) {
      batch->topics[token] = static_cast<uint16_t>(*topic);
    } else {
      Count(absl::MakeConstSpan(batch->rows).subspan(token, 1),
            absl::MakeConstSpan(batch->topics).subspan(token, 1), topics, counts);
    }
    return absl::OkStatus();
  });
}

std::vector<float> TokenTopics::RowsOf(const DocumentBatch& batch) {
  size_t rows = 0;
  for (size_t d = 0; d < batch.documents(); ++d) rows += RowsFor(batch.begin[d + 1] - batch.begin[d]);
  std::vector<float> values(rows * kTokens);
  ForEachToken(batch.begin, [&](size_t token, size_t place) {
    values[place] = static_cast<float>(batch.topics[token]) + 1;
    return absl::OkStatus();
  }).IgnoreError();  // there is none
  return values;
}

absl::StatusOr<TopicModel> CountTokens(const TopicShape& shape, const Corpus& corpus,
                                       absl::Span<const uint32_t> documents, absl::Span<const float> rows) {
  TopicModel model{.shape = shape,
                   .words = std::vector<float>(shape.words * shape.topics),
                   .totals = std::vector<float>(shape.topics)};
  size_t row = 0;
  for (const uint32_t d : documents) {
    const absl::Span<const uint32_t> words = corpus.document(d);
    for (size_t t = 0; t < words.size(); ++t) {
      const absl::StatusOr<size_t> topic = TopicOf(rows[row * TokenTopics::kTokens + t], shape.topics);
      if (!topic.ok()) return topic.status();
      if (*topic == shape.topics) {
        return absl::DataLossError(absl::StrCat("token ", t, " of document ", d, " has no topic"));
      }
      ++model.words[words[t] * shape.topics + *topic];
      ++model.totals[*topic];
    }
    row += RowsFor(words.size());
  }
  return model;
}

uint64_t TokensApart(const TopicModel& found, const TopicModel& expected) {
  return std::max(Apart(found.words, expected.words), Apart(found.totals, expected.totals));
}

}  // namespace paceline::examples
