// The savings of the client's cache and of PushPull.
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

// A worker alone in its job: only a client with a clock reads from its cache without naming one.
absl::StatusOr<std::unique_ptr<Client>> ConnectWorker(const std::string& coordinator) {
  return Client::Connect({.coordinator = coordinator,
                          .job = absl::StrCat("bench-cached-", absl::ToUnixNanos(absl::Now())),
                          .client_name = "paceline-bench",
                          .workers = 1});
}

double MedianMicroseconds(int rounds, const std::function<absl::Status()>& request, absl::Status* error) {
  std::vector<double> us;
  for (int i = 0; i < rounds && error->ok(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    *error = request();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return Median(std::move(us));
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

}  // namespace

absl::StatusOr<std::vector<Result>> Cached(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectWorker(setting.coordinator));
  paceline::Sparse schema;
  schema.dim = kDim;
  schema.consistency = Ssp{.staleness = 8};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("cached", schema));
  world::SplitMix64 random(7);
  std::vector<std::vector<uint64_t>> batches(kBatches, std::vector<uint64_t>(kBatch));
  for (auto& batch : batches) {
    for (uint64_t& key : batch) key = world::Uniform(random, kRows);
  }
  std::vector<float> values(kBatch * kDim, 0.5f);
  for (const auto& batch : batches) ABSL_RETURN_IF_ERROR(table.Pull(batch, absl::MakeSpan(values)));
  const uint64_t pulled = client->stats().rows_pulled;
  absl::Status error;
  RandomCopy copy;
  std::vector<Cost> pulls, copies;
  for (int round = -1; round < setting.Rounds(7); ++round) {  // side by side: the machine's mood changes
    const Cost pulled_again = Measure(OwnCpuSeconds, [&] {
      for (const auto& batch : batches) error.Update(table.Pull(batch, absl::MakeSpan(values)));
    });
    const Cost copied = Measure(OwnCpuSeconds, [&] { copy.Run(batches); });
    if (round < 0) continue;  // warms up
    pulls.push_back(pulled_again);
    copies.push_back(copied);
  }
  ABSL_RETURN_IF_ERROR(error);
  if (client->stats().rows_pulled != pulled) {
    return absl::InternalError("rows that should have been cached were pulled again");
  }
  ABSL_ASSIGN_OR_RETURN(Table fresh, client->Open("cached", Asp{}));  // never from the cache
  const std::vector<uint64_t> key{1};
  const std::vector<float> one(kDim, 1.0f);
  constexpr int kRounds = 2'000;
  const double apart = MedianMicroseconds(
      kRounds,
      [&] {
        absl::Status pushed = table.Push(key, one);
        pushed.Update(fresh.Pull(key).status());
        return pushed;
      },
      &error);
  const double together = MedianMicroseconds(
      kRounds, [&] { return table.PushPull(key, one).status(); }, &error);
  ABSL_RETURN_IF_ERROR(error);
  const auto ns_a_row = [](const std::vector<Cost>& costs) {
    return Median(costs).seconds / (kBatches * kBatch) * 1e9;
  };
  const nlohmann::json params{{"batch", kBatch}, {"dim", kDim}, {"rows", kRows}};
  return std::vector<Result>{{.workload = "cached",
                              .params = params,
                              .metric = "cached pull ns/row",
                              .value = ns_a_row(pulls),
                              .limit_name = "copy from a random place",
                              .limit = ns_a_row(copies),
                              .lower_is_better = true},
                             {.workload = "cached",
                              .params = {{"rows", 1}, {"outstanding", 1}},
                              .metric = "push_pull p50 us",
                              .value = together,
                              .limit_name = "push, then pull",
                              .limit = apart,
                              .lower_is_better = true}};
}

}  // namespace paceline::bench
