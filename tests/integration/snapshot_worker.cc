// Trains, and says what the tables hold: snapshot_worker JOB WORKERS UNTIL PAUSE_MS MODEL.
//
// Trains from the clock at which it starts to clock UNTIL, each clock taking PAUSE_MS, on a ranged table with
// Adagrad, a sparse one with FTRL and a ranged one that is hardly touched. What a worker pushes is a function
// of its rank, the clock and what it has read, so under MODEL `bsp` a run that ended and went on comes to the
// same values, bit for bit, as one that did not. `ssp` is stale synchronous with tables applied on arrival.
// `fit` is stale synchronous too: it fits a linear model, and says with which loss it ended.
// SIGUSR1 lets it go on without pauses.
// Prints `clock N` as clocks pass, then one JSON object: the start clock and all values. With UNTIL 0 it
// prints the values only.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

volatile std::sig_atomic_t hurry = 0;

constexpr uint64_t kRows = 500;
constexpr uint32_t kDim = 3;
constexpr uint64_t kKeys = 120;

struct Tables {
  paceline::Table dense;
  paceline::Table sparse;
  paceline::Table still;
};

// -- fit --

constexpr uint64_t kFeatures = 40;
constexpr int kExamples = 16;  // a clock and worker

// A number of [-1, 1) that follows from `of`.
float Draw(uint64_t of) {
  of = (of ^ (of >> 30)) * 0xbf58476d1ce4e5b9u;
  of = (of ^ (of >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>((of ^ (of >> 31)) >> 40) / static_cast<float>(1 << 23) - 1.0f;
}

// The example's features, and how far `weights` are off its label.
float Error(uint64_t example, const std::vector<float>& weights, std::vector<float>& features) {
  features.resize(kFeatures);
  float error = 0.1f * Draw(~example);  // what no weights explain
  for (uint64_t f = 0; f < kFeatures; ++f) {
    features[f] = Draw(example * 1000 + f);
    error += features[f] * (weights[f] - Draw(f << 40));
  }
  return error;
}

absl::StatusOr<paceline::Table> OpenWeights(paceline::Client& client) {
  return client.OpenOrCreate("weights", paceline::Ranged{.rows = kFeatures,
                                                         .dim = 1,
                                                         .rule = paceline::Sgd{.lr = 0.4f},
                                                         .consistency = paceline::Ssp{.staleness = 2}});
}

absl::Status FitStep(paceline::Client& client, paceline::Table& weights) {
  auto pulled = weights.PullRange(0, kFeatures);
  if (!pulled.ok()) return pulled.status();
  std::vector<float> gradient(kFeatures);
  std::vector<float> features;
  for (int i = 0; i < kExamples; ++i) {
    const uint64_t example = (client.clock() * 64 + client.rank()) * kExamples + static_cast<uint64_t>(i);
    const float error = Error(example, *pulled, features);
    for (uint64_t f = 0; f < kFeatures; ++f) gradient[f] += error * features[f] / kExamples;
  }
  (void)weights.PushRangeAsync(0, gradient);
  return client.Tick();
}

absl::Status ReadLoss(paceline::Client& client, nlohmann::json& result) {
  auto weights = OpenWeights(client);
  if (!weights.ok()) return weights.status();
  auto pulled = weights->PullRange(0, kFeatures);
  if (!pulled.ok()) return pulled.status();
  double sum = 0;
  std::vector<float> features;
  constexpr uint64_t kTests = 2000;
  for (uint64_t i = 0; i < kTests; ++i) {
    const double error = Error((uint64_t{1} << 50) + i, *pulled, features);
    sum += error * error;
  }
  result["loss"] = sum / kTests;
  return absl::OkStatus();
}

std::vector<uint64_t> Keys() {
  std::vector<uint64_t> keys(kKeys);
  for (uint64_t k = 0; k < kKeys; ++k) keys[k] = k * 0x9e3779b97f4a7c15u;
  return keys;
}

// Adagrad whose first steps are small, with a slot of its own and the one that counts steps.
paceline::Expression CarefulAdagrad() {
  return {.slots = {{"n", 0.01f}},
          .params = {{"lr", 0.1f}},
          .code = "n = n + g*g; w = w - select(step < 4, lr/4, lr) * g / (sqrt(n) + 1e-8)"};
}

absl::StatusOr<Tables> Open(paceline::Client& client, bool bsp) {
  const auto model =
      bsp ? paceline::Consistency(paceline::Bsp{}) : paceline::Consistency(paceline::Ssp{.staleness = 2});
  auto dense = client.OpenOrCreate("dense", paceline::Ranged{.rows = kRows,
                                                             .dim = kDim,
                                                             .init = paceline::Normal{.stddev = 0.5f},
                                                             .rule = CarefulAdagrad(),
                                                             .consistency = model,
                                                             .seed = 17});
  if (!dense.ok()) return dense.status();
  auto sparse = client.OpenOrCreate(
      "sparse",
      paceline::Sparse{.dim = 1,
                       .init = paceline::Uniform{.low = -1, .high = 1},
                       .rule = paceline::FtrlProximal{.alpha = 0.1f, .beta = 1, .l1 = 0.01f, .l2 = 0.1f},
                       .consistency = model,
                       .seed = 18});
  if (!sparse.ok()) return sparse.status();
  auto still = client.OpenOrCreate("still", paceline::Ranged{.rows = 5000,
                                                             .dim = 1,
                                                             .init = paceline::Uniform{.low = 0, .high = 2},
                                                             .rule = paceline::Add{},
                                                             .consistency = model,
                                                             .seed = 19});
  if (!still.ok()) return still.status();
  return Tables{*dense, *sparse, *still};
}

absl::Status Step(paceline::Client& client, Tables& tables, const std::vector<uint64_t>& keys) {
  auto dense = tables.dense.PullRange(0, kRows);
  if (!dense.ok()) return dense.status();
  auto sparse = tables.sparse.Pull(keys);
  if (!sparse.ok()) return sparse.status();
  const float own = 0.25f * static_cast<float>(client.rank() + 1);
  std::vector<float> of_dense(dense->size());
  for (size_t i = 0; i < of_dense.size(); ++i) {
    of_dense[i] = std::tanh((*dense)[i] + own * (*sparse)[(i + client.clock()) % kKeys]);
  }
  std::vector<uint64_t> some;
  std::vector<float> of_sparse;
  for (size_t k = client.clock() % 3; k < kKeys; k += 3) {
    some.push_back(keys[k]);
    of_sparse.push_back(own * (*dense)[k] + 0.125f * (*sparse)[k]);
  }
  (void)tables.dense.PushRangeAsync(0, of_dense);
  (void)tables.sparse.PushAsync(some, of_sparse);
  const std::vector<uint64_t> one = {4321};
  const std::vector<float> by = {1};
  (void)tables.still.PushAsync(one, by);
  return client.Tick();
}

absl::Status Train(const std::string& job, uint32_t workers, uint32_t rank, uint64_t until, int pause_ms,
                   const std::string& model, uint64_t& start) {
  auto client = paceline::Client::Connect(
      {.job = job, .client_name = absl::StrCat("worker-", rank), .workers = workers, .rank = rank});
  if (!client.ok()) return client.status();
  const std::vector<uint64_t> keys = Keys();
  std::function<absl::Status()> step;
  if (model == "fit") {
    auto weights = OpenWeights(**client);
    if (!weights.ok()) return weights.status();
    step = [&client, table = *weights]() mutable { return FitStep(**client, table); };
  } else {
    auto tables = Open(**client, model == "bsp");
    if (!tables.ok()) return tables.status();
    step = [&client, &keys, of = *tables]() mutable { return Step(**client, of, keys); };
  }
  start = (*client)->clock();
  while ((*client)->clock() < until) {
    if (absl::Status done = step(); !done.ok()) return done;
    if (hurry == 0) absl::SleepFor(absl::Milliseconds(pause_ms));  // computes
    if (rank == 0) {
      std::puts(absl::StrCat("clock ", (*client)->clock()).c_str());
      std::fflush(stdout);
    }
  }
  return (*client)->Finish();
}

absl::Status Read(const std::string& job, const std::string& model, nlohmann::json& result) {
  auto client = paceline::Client::Connect({.job = job, .client_name = "reader"});
  if (!client.ok()) return client.status();
  if (model == "fit") return ReadLoss(**client, result);
  auto tables = Open(**client, model == "bsp");
  if (!tables.ok()) return tables.status();
  auto dense = tables->dense.PullRange(0, kRows);
  if (!dense.ok()) return dense.status();
  auto sparse = tables->sparse.Pull(Keys());
  if (!sparse.ok()) return sparse.status();
  auto still = tables->still.PullRange(0, 5000);
  if (!still.ok()) return still.status();
  result["dense"] = *dense;
  result["sparse"] = *sparse;
  result["still"] = *still;
  return absl::OkStatus();
}

int Run(const std::string& job, uint32_t workers, uint64_t until, int pause_ms, const std::string& model) {
  std::vector<absl::Status> statuses(workers);
  std::vector<uint64_t> starts(workers);
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < workers && until > 0; ++w) {
    threads.emplace_back([&, w] { statuses[w] = Train(job, workers, w, until, pause_ms, model, starts[w]); });
  }
  for (std::thread& thread : threads) thread.join();
  nlohmann::json result = {{"start", starts[0]}};
  absl::Status status = Read(job, model, result);
  for (const absl::Status& of_worker : statuses) status.Update(of_worker);
  if (!status.ok()) {
    std::fputs(absl::StrCat(status.ToString(), "\n").c_str(), stderr);
    return 1;
  }
  std::puts(result.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t workers = 0;
  uint64_t until = 0;
  int pause_ms = 0;
  if (argc != 6 || !absl::SimpleAtoi(argv[2], &workers) || workers == 0 ||
      !absl::SimpleAtoi(argv[3], &until) || !absl::SimpleAtoi(argv[4], &pause_ms)) {
    std::fputs("usage: snapshot_worker JOB WORKERS UNTIL PAUSE_MS bsp|ssp|fit\n", stderr);
    return 2;
  }
  std::signal(SIGUSR1, [](int) { hurry = 1; });
  return Run(argv[1], workers, until, pause_ms, argv[5]);
}
