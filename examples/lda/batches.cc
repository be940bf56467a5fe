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

BatchBuilder::BatchBuilder(const Corpus& corpus, size_t topics, uint64_t seed)
    : corpus_(corpus), topics_(topics), seed_(seed), numbers_(corpus.words, kNone) {}

DocumentBatch BatchBuilder::Build(absl::Span<const uint32_t> documents) {
  DocumentBatch batch;
  for (const uint32_t d : documents) {
    for (const uint32_t word : corpus_.document(d)) {
      if (numbers_[word] == kNone) {
        numbers_[word] = static_cast<uint32_t>(batch.keys.size());
        batch.keys.push_back(word);
      }
      batch.rows.push_back(numbers_[word]);
    }
    const std::vector<uint16_t> first = FirstTopics(seed_, d, corpus_.document(d).size(), topics_);
    batch.topics.insert(batch.topics.end(), first.begin(), first.end());
    batch.begin.push_back(batch.rows.size());
  }
  for (const uint64_t word : batch.keys) numbers_[word] = kNone;
  return batch;
}

std::vector<DocumentBatch> BatchesOf(const Corpus& corpus, absl::Span<const uint32_t> documents,
                                     size_t workers, size_t rank, size_t batches, size_t topics,
                                     uint64_t seed) {
  const size_t own = documents.size() / workers + (rank < documents.size() % workers);
  BatchBuilder builder(corpus, topics, seed);
  std::vector<DocumentBatch> result;
  std::vector<uint32_t> of_batch;
  for (size_t b = 0; b < batches; ++b) {
    of_batch.clear();
    for (size_t i = b * own / batches; i < (b + 1) * own / batches; ++i) {
      of_batch.push_back(documents[i * workers + rank]);
    }
    result.push_back(builder.Build(of_batch));
  }
  return result;
}

}  // namespace paceline::examples
