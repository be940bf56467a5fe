#include "examples/lda/reference.h"

#include "examples/lib/steady_now.h"

namespace paceline::examples {

LdaReference SampleReference(const LdaOptions& options, const Corpus& corpus,
                             const std::vector<uint32_t>& documents) {
  LdaReference reference;
  TopicModel& model = reference.model;
  model.shape = ShapeOf(options, corpus);
  model.words.resize(model.shape.words * model.shape.topics);
  model.totals.resize(model.shape.topics);
  std::vector<std::vector<uint16_t>> topics;
  for (const uint32_t d : documents) {
    topics.push_back(FirstTopics(options.seed, d, corpus.document(d).size(), options.topics));
    Count(corpus.document(d), topics.back(), options.topics, model.counts());
  }
  const uint64_t tokens = TokensOf(corpus, documents);
  TopicSampler sampler(model.shape, options.seed);
  const absl::Time began = SteadyNow();
  for (int sweep = 1; sweep <= options.sweeps; ++sweep) {
    double nats = 0;
    for (size_t i = 0; i < documents.size(); ++i) {
      nats += sampler.Resample(corpus.document(documents[i]), absl::MakeSpan(topics[i]), model.counts());
    }
    reference.curve.push_back({.examples = tokens * static_cast<uint64_t>(sweep),
                               .seconds = absl::ToDoubleSeconds(SteadyNow() - began),
                               .loss = nats / static_cast<double>(tokens)});
  }
  return reference;
}

}  // namespace paceline::examples
