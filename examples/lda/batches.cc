#include "examples/lda/batches.h"

namespace paceline::examples {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

}  // namespace

double DocumentBatch::Resample(TopicSampler* sampler, const TopicCounts& counts) {
  double nats = 0;
  for (size_t d = 0; d < documents(); ++d) {
    const size_t from = begin[d], length = begin[d + 1] - begin[d];
    nats += sampler->Resample(absl::MakeConstSpan(rows).subspan(from, length),
                              absl::MakeSpan(topics).subspan(from, length), counts);
  }
  return nats;
}

std::vector<DocumentBatch> BatchesOf(const Corpus& corpus, absl::Span<const uint32_t> documents,
                                     size_t workers, size_t rank, size_t batches, size_t topics,
                                     uint64_t seed) {
  const size_t own = documents.size() / workers + (rank < documents.size() % workers);
  std::vector<uint32_t> numbers(corpus.words, kNone);
  std::vector<DocumentBatch> result(batches);
  for (size_t b = 0; b < batches; ++b) {
    DocumentBatch& batch = result[b];
    for (size_t i = b * own / batches; i < (b + 1) * own / batches; ++i) {
      const uint32_t d = documents[i * workers + rank];
      for (const uint32_t word : corpus.document(d)) {
        if (numbers[word] == kNone) {
          numbers[word] = static_cast<uint32_t>(batch.keys.size());
          batch.keys.push_back(word);
        }
        batch.rows.push_back(numbers[word]);
      }
      const std::vector<uint16_t> first = FirstTopics(seed, d, corpus.document(d).size(), topics);
      batch.topics.insert(batch.topics.end(), first.begin(), first.end());
      batch.begin.push_back(batch.rows.size());
    }
    for (const uint64_t word : batch.keys) numbers[word] = kNone;
  }
  return result;
}

}  // namespace paceline::examples
