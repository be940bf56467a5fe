// Bulk synchronous training against the cluster of PACELINE_COORDINATOR; prints one JSON object.
//
//   equal SEED     Four workers train on aggregated tables, then one worker with four times the batch. All
//                  arithmetic is on small dyadic fractions and so exact in f32 in any order: every value that
//                  is read at a clock must be bit-equal in both. The same on tables applied on arrival under
//                  SSP(0), which promises at least what BSP promises exactly, to see that the check can fail.
//   straggle       Each clock one worker, drawn at random, takes up to five times longer. Under BSP all wait
//                  for it, under SSP(8) few do; both must reach the loss of one process. What a clock takes
//                  everybody is what one takes this machine undisturbed, so that by how many clocks the
//                  workers drift apart does not depend on how slow pulls and pushes are.
//
// Workers sleep at random, which stands for computing; nothing waits by sleeping.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <latch>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/world/random.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

using paceline::world::SplitMix64;
using paceline::world::Uniform;

constexpr uint64_t kWorkers = 4;

absl::StatusOr<std::unique_ptr<paceline::Client>> Connect(const std::string& job, uint64_t workers,
                                                          uint64_t rank) {
  return paceline::Client::Connect({.job = job,
                                    .client_name = absl::StrCat("worker-", rank),
                                    .workers = static_cast<uint32_t>(workers),
                                    .rank = static_cast<uint32_t>(rank)});
}

std::string FreshJob(absl::string_view what) {
  return absl::StrCat(what, "-", absl::ToUnixNanos(absl::Now()));
}

// Runs `work(rank)` on threads, one a worker. The first error.
template <class Work>
absl::Status RunWorkers(uint64_t workers, Work work) {
  std::vector<absl::Status> statuses(workers);
  {
    std::vector<std::jthread> threads;
    for (uint64_t w = 0; w < workers; ++w) threads.emplace_back([&, w] { statuses[w] = work(w); });
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// -- equal --

constexpr uint64_t kKeys = 97;    // of a sparse table
constexpr uint64_t kRows = 1000;  // of a ranged one
constexpr uint64_t kClocks = 30;
constexpr uint64_t kBatch = 5;

// The values that the workers have read, by clock, as bits.
using Views = std::map<uint64_t, std::vector<float>>;

// The gradients of one worker's batch of one clock; a function of what was read.
struct Gradients {
  std::vector<uint64_t> keys;
  std::vector<float> sparse;
  std::vector<float> ranged = std::vector<float>(kRows);

  void Add(uint64_t seed, uint64_t clock, uint64_t rank, const std::vector<float>& view) {
    SplitMix64 random(seed * 1'000'003 + clock * 1009 + rank);
    for (uint64_t example = 0; example < kBatch; ++example) {
      const uint64_t a = Uniform(random, kKeys);
      const uint64_t b = Uniform(random, kKeys);
      const uint64_t row = Uniform(random, kRows);
      const float error = view[a] + view[b] + view[kKeys + row] - static_cast<float>(Uniform(random, 3));
      const float gradient = std::clamp(std::round(error * 4), -6.0f, 6.0f) / 8;
      keys.insert(keys.end(), {a, b});
      sparse.insert(sparse.end(), {gradient, gradient});
      ranged[row] += gradient;
    }
  }
};

// Orders worker 0's read for a clock after worker 1's push for the same clock has been applied: what BSP must
// hide and SSP(0) may show.
class PushBeforeRead {
 public:
  void Pushed(uint64_t rank, uint64_t clock) {
    if (rank == 1) pushed_[clock].count_down();
  }
  void AwaitPush(uint64_t rank, uint64_t clock) {
    if (rank == 0) pushed_[clock].wait();
  }
  // A worker that gives up holds nobody up.
  void GiveUp(uint64_t rank) {
    for (std::latch& latch : pushed_) {
      if (rank == 1 && !latch.try_wait()) latch.count_down();
    }
  }

 private:
  std::array<std::latch, kClocks> pushed_ = MakeLatches(std::make_index_sequence<kClocks>());

  template <size_t... I>
  static std::array<std::latch, kClocks> MakeLatches(std::index_sequence<I...> /*clocks*/) {
    return {((void)I, std::latch(1))...};
  }
};

absl::Status TrainEqual(const std::string& job, bool bsp, uint64_t workers, uint64_t rank, uint64_t seed,
                        PushBeforeRead* order, Views& views) {
  auto client = Connect(job, workers, rank);
  if (!client.ok()) return client.status();
  const auto consistency =
      bsp ? paceline::Consistency(paceline::Bsp{}) : paceline::Consistency(paceline::Ssp{.staleness = 0});
  const paceline::Rule rule = paceline::Sgd{.lr = 0.125f};
  auto sparse = (*client)->OpenOrCreate("sparse", paceline::Sparse{.rule = rule, .consistency = consistency});
  if (!sparse.ok()) return sparse.status();
  auto ranged = (*client)->OpenOrCreate(
      "ranged", paceline::Ranged{.rows = kRows, .rule = rule, .consistency = consistency});
  if (!ranged.ok()) return ranged.status();
  std::vector<uint64_t> keys(kKeys);
  for (uint64_t k = 0; k < kKeys; ++k) keys[k] = k * 7919;
  SplitMix64 sleeps(seed * 31 + rank);
  for (uint64_t clock = 0; clock < kClocks; ++clock) {
    if (order != nullptr) order->AwaitPush(rank, clock);
    auto view = sparse->Pull(keys);
    if (!view.ok()) return view.status();
    auto rows = ranged->PullRange(0, kRows);
    if (!rows.ok()) return rows.status();
    view->insert(view->end(), rows->begin(), rows->end());
    absl::SleepFor(absl::Microseconds(Uniform(sleeps, 3000)));
    Gradients gradients;
    for (uint64_t of = 0; of < kWorkers / workers; ++of) gradients.Add(seed, clock, rank + of, *view);
    std::vector<uint64_t> pushed;
    for (uint64_t key : gradients.keys) pushed.push_back(keys[key]);
    (void)sparse->PushAsync(pushed, gradients.sparse);
    (void)ranged->PushRangeAsync(0, gradients.ranged);
    if (absl::Status flushed = (*client)->Flush(); !flushed.ok()) return flushed;
    if (order != nullptr) order->Pushed(rank, clock);
    views[clock] = *std::move(view);
    if (absl::Status ticked = (*client)->Tick(); !ticked.ok()) return ticked;
  }
  return (*client)->Finish();
}

absl::StatusOr<std::vector<Views>> RunEqual(bool bsp, uint64_t workers, uint64_t seed) {
  const std::string job = FreshJob(absl::StrCat("equal-", bsp ? "bsp" : "ssp", "-", workers, "-", seed));
  std::vector<Views> views(workers);
  PushBeforeRead order;
  const absl::Status status = RunWorkers(workers, [&](uint64_t w) {
    const absl::Status trained =
        TrainEqual(job, bsp, workers, w, seed, workers > 1 ? &order : nullptr, views[w]);
    order.GiveUp(w);
    return trained;
  });
  if (!status.ok()) return status;
  return views;
}

// How many views of all workers and clocks differ from those of one worker, in any bit.
absl::StatusOr<uint64_t> CountDifferent(bool bsp, uint64_t seed) {
  const auto one = RunEqual(bsp, 1, seed);
  if (!one.ok()) return one.status();
  const auto four = RunEqual(bsp, kWorkers, seed);
  if (!four.ok()) return four.status();
  uint64_t different = 0;
  for (const Views& views : *four) {
    for (const auto& [clock, view] : views) {
      const std::vector<float>& expected = one->front().at(clock);
      const bool equal = view.size() == expected.size() &&
                         std::memcmp(view.data(), expected.data(), view.size() * sizeof(float)) == 0;
      different += equal ? 0 : 1;
    }
  }
  return different;
}

absl::StatusOr<nlohmann::json> Equal(uint64_t seed) {
  const auto bsp = CountDifferent(/*bsp=*/true, seed);
  if (!bsp.ok()) return bsp.status();
  const auto ssp = CountDifferent(/*bsp=*/false, seed);
  if (!ssp.ok()) return ssp.status();
  return nlohmann::json{{"views", kWorkers * kClocks}, {"different_bsp", *bsp}, {"different_ssp", *ssp}};
}

// -- straggle --

constexpr uint64_t kFeatures = 64;
constexpr uint64_t kStraggleClocks = 250;
constexpr uint64_t kExamples = 8;  // of one worker in a clock
constexpr float kLr = 0.01f;
constexpr uint64_t kCalmClocks = 30;  // to find what a clock takes undisturbed
constexpr absl::Duration kLeastCompute = absl::Milliseconds(2);
// The delays of each worker at each clock: the same for all runs. Of a seed's draws the fastest and the
// slowest worker drift apart by 85 times the median compute time, of which SSP(8) forgives 8 clocks.
constexpr uint64_t kStraggleSeed = 32;

struct Example {
  std::vector<float> x = std::vector<float>(kFeatures);
  float y = 0;
};

// Linear regression: labels are a linear function of the features, and noise.
Example Draw(SplitMix64& random) {
  Example example;
  for (uint64_t f = 0; f < kFeatures; ++f) {
    example.x[f] = static_cast<float>(paceline::world::UnitInterval(random) * 2 - 1);
    example.y += example.x[f] * static_cast<float>(f % 5);
  }
  example.y += static_cast<float>(paceline::world::UnitInterval(random) - 0.5);
  return example;
}

float Error(const Example& example, const std::vector<float>& w) {
  float error = -example.y;
  for (uint64_t f = 0; f < kFeatures; ++f) error += w[f] * example.x[f];
  return error;
}

void AddGradient(uint64_t clock, uint64_t rank, const std::vector<float>& w, std::vector<float>& gradient) {
  SplitMix64 random(clock * 1009 + rank + 5);
  for (uint64_t e = 0; e < kExamples; ++e) {
    const Example example = Draw(random);
    const float error = Error(example, w);
    for (uint64_t f = 0; f < kFeatures; ++f) gradient[f] += error * example.x[f];
  }
}

double Loss(const std::vector<float>& w) {
  constexpr int kHeldOut = 2000;
  SplitMix64 random(99);
  double sum = 0;
  for (int e = 0; e < kHeldOut; ++e) {
    const double error = Error(Draw(random), w);
    sum += error * error;
  }
  return sum / kHeldOut;
}

double ReferenceLoss() {
  std::vector<float> w(kFeatures);
  for (uint64_t clock = 0; clock < kStraggleClocks; ++clock) {
    std::vector<float> gradient(kFeatures);
    for (uint64_t rank = 0; rank < kWorkers; ++rank) AddGradient(clock, rank, w, gradient);
    for (uint64_t f = 0; f < kFeatures; ++f) w[f] -= kLr * gradient[f];
  }
  return Loss(w);
}

struct Straggled {
  paceline::Stats stats;
  std::vector<float> model;
};

struct Pace {
  uint64_t clocks = 0;
  absl::Duration compute;  // what every clock takes everybody
  double slower = 0;       // the straggler of a clock takes up to so many times longer
};

absl::Status TrainStraggling(const std::string& job, const paceline::Consistency& consistency,
                             const Pace& pace, uint64_t rank, Straggled& outcome) {
  auto client = Connect(job, kWorkers, rank);
  if (!client.ok()) return client.status();
  auto weights = (*client)->OpenOrCreate(
      "weights",
      paceline::Ranged{.rows = kFeatures, .rule = paceline::Sgd{.lr = kLr}, .consistency = consistency});
  if (!weights.ok()) return weights.status();
  SplitMix64 straggler(kStraggleSeed);
  for (uint64_t clock = 0; clock < pace.clocks; ++clock) {
    auto w = weights->PullRange(0, kFeatures);
    if (!w.ok()) return w.status();
    std::vector<float> gradient(kFeatures);
    AddGradient(clock, rank, *w, gradient);
    const uint64_t slow = Uniform(straggler, kWorkers);
    const double times = pace.slower * paceline::world::UnitInterval(straggler);
    absl::SleepFor(slow == rank ? pace.compute + pace.compute * times : pace.compute);
    (void)weights->PushRangeAsync(0, gradient);
    if (absl::Status ticked = (*client)->Tick(); !ticked.ok()) return ticked;
  }
  if (absl::Status finished = (*client)->Finish(); !finished.ok()) return finished;
  outcome.stats = (*client)->stats();
  auto model = weights->PullRange(0, kFeatures);
  if (!model.ok()) return model.status();
  outcome.model = *std::move(model);
  return absl::OkStatus();
}

// The time of a clock without stragglers.
absl::StatusOr<absl::Duration> CalmClock() {
  const std::string job = FreshJob("calm");
  const Pace pace{.clocks = kCalmClocks, .compute = kLeastCompute};
  const absl::Time start = absl::Now();
  const absl::Status status = RunWorkers(kWorkers, [&](uint64_t w) {
    Straggled unused;
    return TrainStraggling(job, paceline::Ssp{.staleness = 0}, pace, w, unused);
  });
  if (!status.ok()) return status;
  return (absl::Now() - start) / kCalmClocks;
}

absl::StatusOr<nlohmann::json> Straggle() {
  const absl::StatusOr<absl::Duration> calm = CalmClock();
  if (!calm.ok()) return calm.status();
  const Pace pace{.clocks = kStraggleClocks, .compute = std::max(kLeastCompute, *calm), .slower = 5};
  nlohmann::json out{{"clocks", kStraggleClocks},
                     {"clock_seconds", absl::ToDoubleSeconds(pace.compute)},
                     {"reference_loss", ReferenceLoss()}};
  const std::map<std::string, paceline::Consistency> models = {{"bsp", paceline::Bsp{}},
                                                               {"ssp8", paceline::Ssp{.staleness = 8}}};
  for (const auto& [name, consistency] : models) {
    const std::string job = FreshJob(absl::StrCat("straggle-", name));
    std::vector<Straggled> workers(kWorkers);
    const absl::Status status = RunWorkers(
        kWorkers, [&](uint64_t w) { return TrainStraggling(job, consistency, pace, w, workers[w]); });
    if (!status.ok()) return status;
    double waited = 0;
    double loss = 0;
    for (const Straggled& worker : workers) {
      waited += worker.stats.wait.staleness;
      loss = std::max(loss, Loss(worker.model));
    }
    out[name] = {{"staleness_wait_seconds", waited}, {"loss", loss}};
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  uint64_t seed = 0;
  absl::StatusOr<nlohmann::json> out = absl::InvalidArgumentError("usage: bsp_worker equal SEED | straggle");
  if (mode == "equal" && argc > 2 && absl::SimpleAtoi(argv[2], &seed)) out = Equal(seed);
  if (mode == "straggle") out = Straggle();
  if (!out.ok()) {
    std::cerr << out.status().ToString() << "\n";
    return 1;
  }
  std::cout << out->dump() << "\n";
  return 0;
}
