// Logistic regression as a user of the SDK would write it for speed, beside the same arithmetic on an array.
#include <algorithm>
#include <cmath>
#include <deque>

#include "absl/strings/str_cat.h"
#include "bench/session.h"
#include "bench/workloads.h"
#include "libs/world/random.h"

namespace paceline::bench {
namespace {

constexpr uint64_t kFeatures = 1'000'000;
constexpr size_t kFeaturesPerExample = 32;
constexpr size_t kBatch = 256;
constexpr uint64_t kStaleness = 8;
// How many batches ahead a pull is made. A value that is asked for under SSP(s) and used so many clocks later
// is one under SSP(s + kAhead).
constexpr size_t kAhead = 4;
constexpr float kLearningRate = 0.05f;

// A batch as the loader of a training program leaves it: the features of its examples, and, for whoever has
// the model elsewhere, its distinct features in ascending order and where each occurrence stands among them.
struct Batch {
  std::vector<uint32_t> features;  // kFeaturesPerExample an example
  std::vector<float> labels;
  std::vector<uint64_t> keys;
  std::vector<uint32_t> places;  // in `keys`, of each of `features`
};

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

// Of example `i` by the weights that `index` names: the prediction minus the label. Adds the example's loss.
float Error(const Batch& batch, size_t i, const std::vector<uint32_t>& index, const float* weights,
            double& loss) {
  float score = 0;
  const uint32_t* features = index.data() + i * kFeaturesPerExample;
  for (size_t f = 0; f < kFeaturesPerExample; ++f) score += weights[features[f]];
  const float prediction = 1.0f / (1.0f + std::exp(-score));
  const float label = batch.labels[i];
  loss -= std::log(std::max(label > 0 ? prediction : 1 - prediction, 1e-7f));
  return prediction - label;
}

// Adds each example's error times `scale` to the values of its features.
void AddGradients(const std::vector<float>& errors, const std::vector<uint32_t>& index, float scale,
                  float* values) {
  for (size_t i = 0; i < kBatch; ++i) {
    const float step = errors[i] * scale;
    const uint32_t* features = index.data() + i * kFeaturesPerExample;
    for (size_t f = 0; f < kFeaturesPerExample; ++f) values[features[f]] += step;
  }
}

// One epoch on an array. Returns the mean loss.
double EpochHere(const std::vector<Batch>& batches, std::vector<float>& weights) {
  std::vector<float> errors(kBatch);
  double loss = 0;
  for (const Batch& batch : batches) {
    for (size_t i = 0; i < kBatch; ++i) errors[i] = Error(batch, i, batch.features, weights.data(), loss);
    AddGradients(errors, batch.features, -kLearningRate, weights.data());
  }
  return loss / static_cast<double>(batches.size() * kBatch);
}

// One epoch on a table, ending with everything committed. Returns the mean loss.
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

struct Epochs {
  Cost here, there;
  double loss_here = 0, loss_there = 0;  // of the first epoch
};

absl::StatusOr<Epochs> Train(const Session& session, const std::vector<Batch>& batches,
                             const TableSchema& schema, int rounds) {
  ABSL_ASSIGN_OR_RETURN(Table table,
                        session.client->OpenOrCreate(absl::StrCat("lr-", schema.index()), schema));
  std::vector<float> weights(kFeatures, 0);
  FirstError error;
  Epochs epochs;
  std::vector<Cost> here, there;
  for (int round = 0; round <= rounds; ++round) {  // side by side: the machine's mood changes
    double loss_here = 0;
    absl::StatusOr<double> loss_there = 0;
    const Cost cost_here = Measure(OwnCpuSeconds, [&] { loss_here = EpochHere(batches, weights); });
    const Cost cost_there =
        Measure(session.cpu, [&] { loss_there = EpochThere(batches, *session.client, table); });
    ABSL_RETURN_IF_ERROR(loss_there.status());
    if (round == 0) {  // rows are born, memory is touched: not counted
      epochs.loss_here = loss_here;
      epochs.loss_there = *loss_there;
      continue;
    }
    here.push_back(cost_here);
    there.push_back(cost_there);
  }
  epochs.here = Median(here);
  epochs.there = Median(there);
  return epochs;
}

}  // namespace

absl::StatusOr<std::vector<Result>> LogisticRegression(const Setting& setting) {
  const size_t examples = setting.smallest ? 4 * kBatch : 102'400;
  const int rounds = setting.smallest ? 1 : 9;
  const std::vector<Batch> batches = MakeBatches(examples);
  ABSL_ASSIGN_OR_RETURN(const Session session, Session::Open(setting, "lr", 1));
  std::vector<Result> results;
  paceline::Sparse sparse;
  sparse.rule = Sgd{.lr = kLearningRate};
  sparse.consistency = Ssp{.staleness = kStaleness - kAhead};
  Ranged ranged;
  ranged.rows = kFeatures;
  ranged.rule = sparse.rule;
  ranged.consistency = sparse.consistency;
  for (const std::string& kind : setting.tables) {
    const TableSchema schema = kind == "sparse" ? TableSchema(sparse) : TableSchema(ranged);
    ABSL_ASSIGN_OR_RETURN(const Epochs epochs, Train(session, batches, schema, rounds));
    // The two add up the same updates in another order, and one of them some batches late.
    if (std::abs(epochs.loss_there - epochs.loss_here) > 0.05 * epochs.loss_here) {
      return absl::InternalError(absl::StrCat("lr: the mean loss of the first epoch was ", epochs.loss_there,
                                              " with a ", kind, " table and ", epochs.loss_here, " without"));
    }
    const nlohmann::json params{{"examples", examples},
                                {"features", kFeatures},
                                {"batch", kBatch},
                                {"staleness", kStaleness},
                                {"table", kind}};
    const auto add = [&](const char* metric, double value, double limit) {
      results.push_back({.workload = "lr",
                         .params = params,
                         .metric = metric,
                         .value = value,
                         .limit_name = "without a server",
                         .limit = limit,
                         .lower_is_better = true});
    };
    add("epoch s", epochs.there.seconds, epochs.here.seconds);
    add("epoch CPU-s", epochs.there.cpu_seconds, epochs.here.cpu_seconds);
    add("mean loss", epochs.loss_there, epochs.loss_here);
  }
  ABSL_RETURN_IF_ERROR(session.client->Finish());
  return results;
}

}  // namespace paceline::bench
