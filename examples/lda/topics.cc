#include "examples/lda/topics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline::examples {
namespace {

constexpr int kInferenceSteps = 50;

// The probability of each word in each topic, words · topics of them.
std::vector<float> WordsGivenTopics(const TopicModel& model) {
  const size_t topics = model.shape.topics;
  const float of_all = static_cast<float>(model.shape.words) * model.shape.beta;
  std::vector<float> given(model.words.size());
  for (size_t i = 0; i < given.size(); ++i) {
    given[i] = (model.words[i] + model.shape.beta) / (model.totals[i % topics] + of_all);
  }
  return given;
}

double Dot(absl::Span<const double> a, const float* b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * static_cast<double>(b[k]);
  return sum;
}

// The shares of topics in a document of these tokens, by iteration from equal ones.
std::vector<double> Shares(const TopicShape& shape, const std::vector<float>& given,
                           absl::Span<const uint32_t> tokens) {
  std::vector<double> shares(shape.topics, 1.0 / static_cast<double>(shape.topics)), next(shape.topics);
  for (int step = 0; step < kInferenceSteps; ++step) {
    std::fill(next.begin(), next.end(), static_cast<double>(shape.alpha));
    for (const uint32_t word : tokens) {
      const float* of_word = &given[word * shape.topics];
      const double scale = 1 / Dot(shares, of_word);
      for (size_t k = 0; k < shape.topics; ++k)
        next[k] += shares[k] * static_cast<double>(of_word[k]) * scale;
    }
    const double all = std::accumulate(next.begin(), next.end(), 0.0);
    for (size_t k = 0; k < shape.topics; ++k) shares[k] = next[k] / all;
  }
  return shares;
}

// exp of the mean of -log p over the second halves of the documents. `predict` gets the first half and
// returns the probability of a word.
using Predict = std::function<std::function<double(uint32_t)>(absl::Span<const uint32_t>)>;
double Perplexity(const Corpus& corpus, absl::Span<const uint32_t> documents, uint64_t seed,
                  const Predict& predict) {
  double nats = 0;
  size_t predicted = 0;
  for (const uint32_t d : documents) {
    std::vector<uint32_t> tokens(corpus.document(d).begin(), corpus.document(d).end());
    Random random(Mix64(seed + 2) + d);
    for (size_t left = tokens.size(); left > 1; --left)
      std::swap(tokens[left - 1], tokens[random.Below(left)]);
    const absl::Span<const uint32_t> shown = absl::MakeConstSpan(tokens).first(tokens.size() / 2);
    const std::function<double(uint32_t)> probability = predict(shown);
    for (size_t i = shown.size(); i < tokens.size() && !shown.empty(); ++i) {
      nats -= std::log(probability(tokens[i]));
      ++predicted;
    }
  }
  return predicted == 0 ? 0 : std::exp(nats / static_cast<double>(predicted));
}

std::string WordText(uint32_t word, absl::Span<const std::string> vocabulary) {
  return word < vocabulary.size() ? vocabulary[word] : absl::StrCat(word);
}

// The numbers from 0 on whose values are the greatest, the greatest first.
std::vector<uint32_t> Greatest(size_t numbers, size_t top, const std::function<float(uint32_t)>& value) {
  std::vector<uint32_t> order(numbers);
  std::iota(order.begin(), order.end(), 0u);
  top = std::min(top, numbers);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      const float of_a = value(a), of_b = value(b);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  order.resize(top);
  return order;
}

}  // namespace

double TopicSampler::Resample(absl::Span<const uint32_t> rows, absl::Span<uint16_t> topics,
                              const TopicCounts& counts) {
  std::fill(in_document_.begin(), in_document_.end(), 0.0f);
  for (const uint16_t topic : topics) ++in_document_[topic];
  for (size_t k = 0; k < shape_.topics; ++k) Move(static_cast<uint16_t>(k), 0, {}, counts.totals);
  const double others =
      static_cast<double>(rows.size()) - 1 + static_cast<double>(shape_.topics) * shape_.alpha;
  double nats = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const absl::Span<float> word = counts.words.subspan(rows[i] * shape_.topics, shape_.topics);
    Move(topics[i], -1, word, counts.totals);
    double sum = 0;
    topics[i] = Draw(word, &sum);
    Move(topics[i], 1, word, counts.totals);
    nats -= std::log(sum / others);
  }
  return nats;
}

// An empty `word` changes nothing and computes the inverse alone.
void TopicSampler::Move(uint16_t topic, float by, absl::Span<float> word, absl::Span<float> totals) {
  if (!word.empty()) {
    in_document_[topic] += by;
    word[topic] += by;
    totals[topic] += by;
  }
  // A worker that reads less than what it has pushed itself, under Asp, may see counts below 0.
  inverse_[topic] = 1 / (std::max(totals[topic], 0.0f) + static_cast<float>(shape_.words) * shape_.beta);
}

uint16_t TopicSampler::Draw(absl::Span<const float> word, double* sum) {
  float so_far = 0;
  for (size_t k = 0; k < shape_.topics; ++k) {
    so_far += (in_document_[k] + shape_.alpha) * (std::max(word[k], 0.0f) + shape_.beta) * inverse_[k];
    up_to_[k] = so_far;
  }
  *sum = so_far;
  const auto at = std::upper_bound(up_to_.begin(), up_to_.end(), static_cast<float>(random_.Unit()) * so_far);
  return static_cast<uint16_t>(std::min<std::ptrdiff_t>(at - up_to_.begin(), std::ssize(up_to_) - 1));
}

std::vector<uint16_t> FirstTopics(uint64_t seed, uint32_t d, size_t tokens, size_t topics) {
  Random random(Mix64(seed + 1) + d);
  std::vector<uint16_t> first(tokens);
  for (uint16_t& topic : first) topic = static_cast<uint16_t>(random.Below(topics));
  return first;
}

void Count(absl::Span<const uint32_t> rows, absl::Span<const uint16_t> topics, size_t topic_count,
           const TopicCounts& counts) {
  for (size_t i = 0; i < rows.size(); ++i) {
    ++counts.words[rows[i] * topic_count + topics[i]];
    ++counts.totals[topics[i]];
  }
}

absl::Status CheckCounts(const TopicModel& model, uint64_t tokens) {
  const size_t topics = model.shape.topics;
  std::vector<double> sums(topics);
  for (size_t i = 0; i < model.words.size(); ++i) {
    const float count = model.words[i];
    if (count < 0 || count != std::floor(count)) {
      return absl::DataLossError(absl::StrCat("word ", i / topics, " has ", count, " tokens of topic ",
                                              i % topics, ", expected a whole number"));
    }
    sums[i % topics] += count;
  }
  for (size_t k = 0; k < topics; ++k) {
    if (sums[k] != static_cast<double>(model.totals[k])) {
      return absl::DataLossError(
          absl::StrCat("topic ", k, " has ", model.totals[k], " tokens, and ", sums[k], " by its words"));
    }
  }
  const double all = std::accumulate(sums.begin(), sums.end(), 0.0);
  if (all == static_cast<double>(tokens)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the topics have ", all, " tokens, the documents ", tokens));
}

double CompletionPerplexity(const TopicModel& model, const Corpus& corpus,
                            absl::Span<const uint32_t> documents, uint64_t seed) {
  const std::vector<float> given = WordsGivenTopics(model);
  return Perplexity(corpus, documents, seed, [&](absl::Span<const uint32_t> shown) {
    return [&, shares = Shares(model.shape, given, shown)](uint32_t word) {
      return Dot(shares, &given[word * model.shape.topics]);
    };
  });
}

double UnigramPerplexity(const TopicShape& shape, const Corpus& corpus, absl::Span<const uint32_t> train,
                         absl::Span<const uint32_t> documents, uint64_t seed) {
  std::vector<double> counts(shape.words, static_cast<double>(shape.beta));
  for (const uint32_t d : train) {
    for (const uint32_t word : corpus.document(d)) ++counts[word];
  }
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  return Perplexity(corpus, documents, seed, [&](absl::Span<const uint32_t>) {
    return [&](uint32_t word) { return counts[word] / all; };
  });
}

std::string TopicsText(const TopicModel& model, absl::Span<const std::string> vocabulary, size_t top) {
  const size_t topics = model.shape.topics;
  const double all = std::max(1.0, std::accumulate(model.totals.begin(), model.totals.end(), 0.0));
  std::string text =
      "# lda: a line `topic share word …` for each topic, the largest first, its most frequent words first\n";
  for (const uint32_t k : Greatest(topics, topics, [&](uint32_t topic) { return model.totals[topic]; })) {
    const auto count = [&](uint32_t word) { return model.words[word * topics + k]; };
    absl::StrAppendFormat(&text, "%d %.4f", k, static_cast<double>(model.totals[k]) / all);
    for (const uint32_t word : Greatest(model.shape.words, top, count)) {
      if (count(word) > 0) absl::StrAppend(&text, " ", WordText(word, vocabulary));
    }
    text += "\n";
  }
  return text;
}

}  // namespace paceline::examples
