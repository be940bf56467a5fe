#include "bench/lr_epoch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "libs/base/status.h"
#include "libs/world/random.h"

namespace paceline::bench::lr {

std::vector<Batch> MakeBatches(size_t examples) {
  world::SplitMix64 random(42);
  std::vector<float> truth(kFeatures);
  for (float& weight : truth) weight = static_cast<float>(world::UnitInterval(random)) - 0.5f;
  std::vector<Batch> batches(examples / kBatch);
  for (Batch& batch : batches) {
    for (size_t i = 0; i < kBatch; ++i) {
      float score = 0;
      for (size_t f = 0; f < kFeaturesPerExample; ++f) {
        const auto feature = static_cast<uint32_t>(world::Uniform(random, kFeatures));
        batch.features.push_back(feature);
        score += truth[feature];
      }
      batch.labels.push_back(score > 0 ? 1.0f : 0.0f);
    }
    batch.keys.assign(batch.features.begin(), batch.features.end());
    std::sort(batch.keys.begin(), batch.keys.end());
    batch.keys.erase(std::unique(batch.keys.begin(), batch.keys.end()), batch.keys.end());
    for (const uint32_t feature : batch.features) {
      const auto at = std::lower_bound(batch.keys.begin(), batch.keys.end(), feature);
      batch.places.push_back(static_cast<uint32_t>(at - batch.keys.begin()));
    }
  }
  return batches;
}

double EpochHere(const std::vector<Batch>& batches, std::vector<float>& weights) {
  std::vector<float> errors(kBatch);
  double loss = 0;
  for (const Batch& batch : batches) {
    for (size_t i = 0; i < kBatch; ++i) errors[i] = Error(batch, i, batch.features, weights.data(), loss);
    AddGradients(errors, batch.features, -kLearningRate, weights.data());
  }
  return loss / static_cast<double>(batches.size() * kBatch);
}

namespace {

// `keys_of(b)`: the keys of batch b, as Table takes them.
template <class KeysOf>
absl::StatusOr<double> Epoch(const std::vector<Batch>& batches, const KeysOf& keys_of, Client& client,
                             Table& table) {
  struct Pull {
    ~Pull() {
      if (pulled.valid()) (void)pulled.Get();  // it writes to the weights until then
    }
    std::vector<float> weights;
    Future<void> pulled;
  };
  std::array<Pull, kAhead> pulls;  // of the batches that follow
  const auto pull = [&](size_t b) {
    Pull& next = pulls[b % kAhead];
    next.weights.resize(batches[b].keys.size());
    next.pulled = table.PullAsync(keys_of(b), absl::MakeSpan(next.weights));
  };
  for (size_t b = 0; b < std::min(kAhead, batches.size()); ++b) pull(b);
  std::vector<float> errors(kBatch);
  std::vector<float> gradients;
  double loss = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    const Batch& batch = batches[b];
    const Pull& of_batch = pulls[b % kAhead];
    ABSL_RETURN_IF_ERROR(of_batch.pulled.Get());
    for (size_t i = 0; i < kBatch; ++i)
      errors[i] = Error(batch, i, batch.places, of_batch.weights.data(), loss);
    gradients.assign(batch.keys.size(), 0);
    AddGradients(errors, batch.places, 1, gradients.data());
    // Before this batch's push: a pull waits for its caller's own pushes, and those before are there by now.
    if (b + kAhead < batches.size()) pull(b + kAhead);
    (void)table.PushAsync(keys_of(b), gradients);  // Flush reports what goes wrong
    ABSL_RETURN_IF_ERROR(client.Tick());
  }
  ABSL_RETURN_IF_ERROR(client.Flush());
  return loss / static_cast<double>(batches.size() * kBatch);
}

}  // namespace

absl::StatusOr<std::vector<KeyList>> ListKeys(const std::vector<Batch>& batches, const Table& table) {
  std::vector<KeyList> lists;
  for (const Batch& batch : batches) {
    ABSL_ASSIGN_OR_RETURN(KeyList list, table.MakeKeyList(batch.keys));
    lists.push_back(std::move(list));
  }
  return lists;
}

absl::StatusOr<double> EpochThere(const std::vector<Batch>& batches, Client& client, Table& table) {
  return Epoch(
      batches, [&](size_t b) -> const std::vector<uint64_t>& { return batches[b].keys; }, client, table);
}

absl::StatusOr<double> EpochThere(const std::vector<Batch>& batches, const std::vector<KeyList>& lists,
                                  Client& client, Table& table) {
  return Epoch(
      batches, [&](size_t b) -> const KeyList& { return lists[b]; }, client, table);
}

}  // namespace paceline::bench::lr
