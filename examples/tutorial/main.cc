// The program of docs/tutorial.md, which shows its parts word for word: several workers learn one linear
// model.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "paceline/client.h"

namespace {

constexpr uint64_t kFeatures = 50;
constexpr int kBatch = 32;

volatile std::sig_atomic_t stop = 0;

struct Example {
  std::vector<float> x;
  float y = 0;
};

// Examples of a line that we pretend not to know: weight i is i / 50.
Example Draw(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  Example example;
  for (uint64_t i = 0; i < kFeatures; ++i) {
    example.x.push_back(normal(random));
    example.y += example.x[i] * static_cast<float>(i) / kFeatures;
  }
  example.y += 0.1f * normal(random);  // the noise, beyond which nobody can learn
  return example;
}

float Error(const std::vector<float>& weights, const Example& example) {
  float predicted = 0;
  for (uint64_t i = 0; i < kFeatures; ++i) predicted += weights[i] * example.x[i];
  return predicted - example.y;
}

// [model]
paceline::Consistency ModelOf(const std::string& name) {
  if (name == "bsp") return paceline::Bsp{};
  if (name == "asp") return paceline::Asp{};
  return paceline::Ssp{.staleness = std::strtoull(name.c_str(), nullptr, 10)};
}
// [model]

// [train]
absl::Status Train(uint32_t rank, uint32_t workers, const std::string& model, uint64_t last_clock) {
  auto client = paceline::Client::Connect({.job = "line", .workers = workers, .rank = rank});
  if (!client.ok()) return client.status();
  auto weights = (*client)->OpenOrCreate(
      "weights",
      paceline::Ranged{.rows = kFeatures, .rule = paceline::Sgd{.lr = 0.02f}, .consistency = ModelOf(model)});
  if (!weights.ok()) return weights.status();
  std::printf("worker %u begins at clock %u\n", rank, static_cast<unsigned>((*client)->clock()));

  while ((*client)->clock() < last_clock && stop == 0) {
    // Each worker has examples of its own, in each clock others.
    std::mt19937_64 random((*client)->clock() * workers + rank);
    const auto pulled = weights->PullRange(0, kFeatures);
    if (!pulled.ok()) return pulled.status();
    std::vector<float> gradient(kFeatures);
    double loss = 0;
    for (int i = 0; i < kBatch; ++i) {
      const Example example = Draw(random);
      const float error = Error(*pulled, example);
      loss += error * error / kBatch;
      // The workers' gradients are added up: together they make the mean over all of their examples.
      const float share = error / static_cast<float>(kBatch * workers);
      for (uint64_t f = 0; f < kFeatures; ++f) gradient[f] += share * example.x[f];
    }
    (void)weights->PushRangeAsync(0, gradient);  // Finish tells of errors
    (*client)->ReportLoss(loss);                 // for dashboards
    if (absl::Status ticked = (*client)->Tick(); !ticked.ok()) return ticked;
  }
  const uint64_t clock = (*client)->clock();
  if (absl::Status finished = (*client)->Finish(); !finished.ok()) return finished;
  std::printf("worker %u stops at clock %u\n", rank, static_cast<unsigned>(clock));
  return absl::OkStatus();
}
// [train]

// [evaluate]
absl::Status Evaluate() {
  auto client = paceline::Client::Connect({.job = "line"});  // no worker: a reader
  if (!client.ok()) return client.status();
  auto weights = (*client)->Open("weights", paceline::Asp{});
  if (!weights.ok()) return weights.status();
  const auto pulled = weights->PullRange(0, kFeatures);
  if (!pulled.ok()) return pulled.status();
  std::mt19937_64 random(999'999'999);  // examples that no worker has seen
  double loss = 0;
  for (int i = 0; i < 1000; ++i) {
    const float error = Error(*pulled, Draw(random));
    loss += error * error / 1000;
  }
  std::printf("held-out loss %.4f; that of the noise is 0.01\n", loss);
  return absl::OkStatus();
}
// [evaluate]

}  // namespace

// [main]
int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { stop = 1; });
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a log file too shows each line at once
  absl::Status status;
  if (argc == 5) {
    const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    status = Train(static_cast<uint32_t>(number(1)), static_cast<uint32_t>(number(2)), argv[3], number(4));
  } else if (argc == 2 && std::string(argv[1]) == "evaluate") {
    status = Evaluate();
  } else {
    status = absl::InvalidArgumentError("usage: line RANK WORKERS MODEL LAST_CLOCK, or line evaluate");
  }
  if (!status.ok()) std::fprintf(stderr, "line: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
// [main]
