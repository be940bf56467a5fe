#include "bench/lr_epoch.h"

#include <algorithm>
#include <deque>
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

absl::StatusOr<double> EpochThere(const std::vector<Batch>& batches, Client& client, Table& table) {
  std::deque<Future<std::vector<float>>> pulled;
  for (size_t b = 0; b < std::min(kAhead, batches.size()); ++b)
    pulled.push_back(table.PullAsync(batches[b].keys));
  std::vector<float> errors(kBatch);
  std::vector<float> gradients;
  double loss = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    const Batch& batch = batches[b];
    ABSL_ASSIGN_OR_RETURN(const std::vector<float> weights, std::move(pulled.front()).Get());
    pulled.pop_front();
    for (size_t i = 0; i < kBatch; ++i) errors[i] = Error(batch, i, batch.places, weights.data(), loss);
    gradients.assign(batch.keys.size(), 0);
    AddGradients(errors, batch.places, 1, gradients.data());
    // Before this batch's push: a pull waits for its caller's own pushes, and those before are there by now.
    if (b + kAhead < batches.size()) pulled.push_back(table.PullAsync(batches[b + kAhead].keys));
    (void)table.PushAsync(batch.keys, gradients);  // Flush reports what goes wrong
    ABSL_RETURN_IF_ERROR(client.Tick());
  }
  ABSL_RETURN_IF_ERROR(client.Flush());
  return loss / static_cast<double>(batches.size() * kBatch);
}

}  // namespace paceline::bench::lr
