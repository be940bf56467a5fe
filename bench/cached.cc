// The savings of the client's cache and of PushPull.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/session.h"
#include "bench/workloads.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "paceline/client.h"

namespace paceline::bench {
namespace {

constexpr uint32_t kDim = 16;
constexpr uint64_t kRows = 100'000;
constexpr size_t kBatch = 1'000;
constexpr int kBatches = 500;
constexpr uint64_t kCacheBytes = uint64_t{64} << 20;

// A worker alone in its job: only a client with a clock reads from its cache without naming one.
absl::StatusOr<std::unique_ptr<Client>> ConnectWorker(const std::string& coordinator,
                                                      uint64_t cache_bytes_max = kCacheBytes) {
  return Client::Connect({.coordinator = coordinator,
                          .job = absl::StrCat("bench-cached-", absl::ToUnixNanos(absl::Now())),
                          .client_name = "paceline-bench",
                          .workers = 1,
                          .cache_bytes_max = cache_bytes_max});
}

// Copies rows from random places, known ahead.
class RandomCopy {
 public:
  void Run(const std::vector<std::vector<uint64_t>>& batches) {
    for (const auto& batch : batches) {
      for (size_t i = 0; i < batch.size(); ++i) {
        std::memcpy(to_.data() + i * kDim, from_.data() + batch[i] * kDim, kDim * sizeof(float));
      }
    }
  }

 private:
  const std::vector<float> from_ = std::vector<float>(kRows * kDim, 0.5f);
  std::vector<float> to_ = std::vector<float>(kBatch * kDim);
};

// -- hits from 5 % to 95 % --

constexpr uint64_t kSweepStaleness = 200;
constexpr uint64_t kFirstCold = 2 * kBatch;
constexpr uint64_t kColdRows = 1'000'000;

// A worker that pulls, pushes and ticks. A share of each batch is hot: half of a few rows, so that each is
// read at every other clock, and a cached one is unfit once in kSweepStaleness clocks. The others are hardly
// ever read twice in that time.
class SweepWorker {
 public:
  static absl::StatusOr<SweepWorker> Connect(const std::string& coordinator, uint64_t cache_bytes_max) {
    SweepWorker worker;
    ABSL_ASSIGN_OR_RETURN(worker.client_, ConnectWorker(coordinator, cache_bytes_max));
    paceline::Sparse schema;
    schema.dim = kDim;
    schema.rule = Sgd{.lr = 0.01f};
    schema.consistency = Ssp{.staleness = kSweepStaleness};
    ABSL_ASSIGN_OR_RETURN(worker.table_, worker.client_->OpenOrCreate("sweep", schema));
    return worker;
  }

  // A round of batches with that share of hot rows. The same keys in each round with the same seed.
  absl::Status Round(double hot, uint64_t seed, int batches) {
    world::SplitMix64 random(seed);
    std::vector<uint64_t> keys(kBatch);
    for (int b = 0; b < batches; ++b) {
      const auto hot_keys = static_cast<size_t>(hot * kBatch);
      const uint64_t offset = world::Uniform(random, kBatch);
      for (size_t i = 0; i < kBatch; ++i) {
        keys[i] =
            i < hot_keys ? (offset + i) % (2 * hot_keys) : kFirstCold + world::Uniform(random, kColdRows);
      }
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      values_.resize(keys.size() * kDim);
      ABSL_RETURN_IF_ERROR(table_->Pull(keys, absl::MakeSpan(values_)));
      (void)table_->PushAsync(keys, values_);  // Flush reports what goes wrong
      ABSL_RETURN_IF_ERROR(client_->Tick());
      rows_ += keys.size();
      keys.resize(kBatch);
    }
    return client_->Flush();
  }

  // Of the rows that were read since the last call, the share that came from the cache.
  double TakeHitShare() {
    const uint64_t cached = client_->stats().rows_from_cache;
    const double share = rows_ == 0 ? 0 : static_cast<double>(cached - cached_) / static_cast<double>(rows_);
    cached_ = cached;
    rows_ = 0;
    return share;
  }

 private:
  std::unique_ptr<Client> client_;
  std::optional<Table> table_;
  std::vector<float> values_;
  uint64_t rows_ = 0;
  uint64_t cached_ = 0;
};

// With the cache and without it in turns; a new client for each share, as what one has learnt of its table
// would help the next.
absl::Status Sweep(const Setting& setting, std::vector<Result>& results) {
  const int batches = setting.smallest ? 10 : 200;  // a round
  for (const int percent : {5, 15, 25, 50, 75, 95}) {
    ABSL_ASSIGN_OR_RETURN(SweepWorker on, SweepWorker::Connect(setting.coordinator, kCacheBytes));
    ABSL_ASSIGN_OR_RETURN(SweepWorker off, SweepWorker::Connect(setting.coordinator, 0));
    absl::Status error;
    std::vector<Cost> with, without;
    double hits = 0;
    for (int round = -1; round < setting.Rounds(7); ++round) {
      const auto seed = static_cast<uint64_t>(round + 2);
      const double hot = percent / 100.0;
      const auto cost_of = [&](SweepWorker& worker) {
        return Measure(OwnCpuSeconds, [&] { error.Update(worker.Round(hot, seed, batches)); });
      };
      const bool on_first = round % 2 == 0;
      Cost cost_on, cost_off;
      if (on_first) cost_on = cost_of(on);
      cost_off = cost_of(off);
      if (!on_first) cost_on = cost_of(on);
      hits = on.TakeHitShare();
      if (round < 0) continue;  // rows are born, the cache fills
      with.push_back(cost_on);
      without.push_back(cost_off);
    }
    ABSL_RETURN_IF_ERROR(error);
    results.push_back({.workload = "cached",
                       .params = {{"batch", kBatch},
                                  {"dim", kDim},
                                  {"hot_percent", percent},
                                  {"hits_percent", std::round(1000 * hits) / 10}},
                       .metric = "pull, push, tick: us a batch",
                       .value = Median(with).seconds / batches * 1e6,
                       .limit_name = "cache off",
                       .limit = Median(without).seconds / batches * 1e6,
                       .lower_is_better = true,
                       .goal = 1.05});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Result>> Cached(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectWorker(setting.coordinator));
  paceline::Sparse schema;
  schema.dim = kDim;
  // With `refresh` the cache keeps the table for its bytes, whatever hits seem to cost on a busy machine.
  schema.consistency = Ssp{.staleness = 8, .refresh = true};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("cached", schema));
  world::SplitMix64 random(7);
  std::vector<std::vector<uint64_t>> batches(kBatches, std::vector<uint64_t>(kBatch));
  for (auto& batch : batches) {
    for (uint64_t& key : batch) key = world::Uniform(random, kRows);
  }
  std::vector<float> values(kBatch * kDim, 0.5f);
  for (const auto& batch : batches) ABSL_RETURN_IF_ERROR(table.Pull(batch, absl::MakeSpan(values)));
  ABSL_ASSIGN_OR_RETURN(Table fresh, client->Open("cached", Asp{}));  // never from the cache
  absl::Status error;
  RandomCopy copy;
  std::vector<Cost> pulls, copies, fetches;
  for (int round = -1; round < setting.Rounds(7); ++round) {  // side by side: the machine's mood changes
    const uint64_t pulled_before = client->stats().rows_pulled;
    const Cost pulled_again = Measure(OwnCpuSeconds, [&] {
      for (const auto& batch : batches) error.Update(table.Pull(batch, absl::MakeSpan(values)));
    });
    const Cost copied = Measure(OwnCpuSeconds, [&] { copy.Run(batches); });
    const bool all_cached = client->stats().rows_pulled == pulled_before;
    const Cost fetched = Measure(OwnCpuSeconds, [&] {
      for (const auto& batch : batches) error.Update(fresh.Pull(batch, absl::MakeSpan(values)));
    });
    if (round < 0) continue;  // warms up
    if (!all_cached) return absl::InternalError("rows that should have been cached were pulled again");
    pulls.push_back(pulled_again);
    copies.push_back(copied);
    fetches.push_back(fetched);
  }
  ABSL_RETURN_IF_ERROR(error);
  const std::vector<uint64_t> key{1};
  const std::vector<float> one(kDim, 1.0f);
  constexpr int kRounds = 2'000;
  FirstError failed;
  const double apart = MedianUs(
      kRounds,
      [&] {
        absl::Status pushed = table.Push(key, one);
        pushed.Update(fresh.Pull(key).status());
        return pushed;
      },
      failed);
  const double together = MedianUs(
      kRounds, [&] { return table.PushPull(key, one).status(); }, failed);
  ABSL_RETURN_IF_ERROR(failed.status());
  const auto ns_a_row = [](const std::vector<Cost>& costs) {
    return Median(costs).seconds / (kBatches * kBatch) * 1e9;
  };
  const nlohmann::json params{{"batch", kBatch}, {"dim", kDim}, {"rows", kRows}};
  std::vector<Result> results{{.workload = "cached",
                               .params = params,
                               .metric = "cached pull ns/row",
                               .value = ns_a_row(pulls),
                               .limit_name = "copy from a random place",
                               .limit = ns_a_row(copies),
                               .lower_is_better = true},
                              {.workload = "cached",
                               .params = params,
                               .metric = "cached pull ns/row",
                               .value = ns_a_row(pulls),
                               .limit_name = "fetched pull",
                               .limit = ns_a_row(fetches),
                               .lower_is_better = true,
                               .goal = 0.1},
                              {.workload = "cached",
                               .params = {{"rows", 1}, {"outstanding", 1}},
                               .metric = "push_pull p50 us",
                               .value = together,
                               .limit_name = "push, then pull",
                               .limit = apart,
                               .lower_is_better = true}};
  ABSL_RETURN_IF_ERROR(client->Finish());
  ABSL_RETURN_IF_ERROR(Sweep(setting, results));
  return results;
}

}  // namespace paceline::bench
