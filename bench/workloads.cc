#include "bench/workloads.h"

#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/limits.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "paceline/client.h"

namespace paceline::bench {
namespace {

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& coordinator, const std::string& workload) {
  return Client::Connect({.coordinator = coordinator,
                          .job = absl::StrCat("bench-", workload, "-", absl::ToUnixNanos(absl::Now())),
                          .client_name = "paceline-bench"});
}

// Remembers the first failure of work that is measured, so that a broken run is not a fast one.
class FirstError {
 public:
  void operator()(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Result>> Dense(const std::string& coordinator) {
  constexpr uint32_t kDim = 64;
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr uint64_t kRows = kBytes / (kDim * sizeof(float));
  constexpr int kRounds = 7;
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Connect(coordinator, "dense"));
  Ranged schema;
  schema.rows = kRows;
  schema.dim = kDim;
  schema.rule = Add{};
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("dense", schema));
  std::vector<float> values(kRows * kDim, 0.5f);
  FirstError error;
  ABSL_ASSIGN_OR_RETURN(const double tcp, RawTcpGBs(1 << 20, size_t{1} << 30));
  const double push = MedianSeconds(kRounds, [&] { error(table.PushRange(0, values)); });
  const double pull = MedianSeconds(kRounds, [&] { error(table.PullRange(0, absl::MakeSpan(values))); });
  ABSL_RETURN_IF_ERROR(error.status());
  const nlohmann::json params{{"MB", kBytes >> 20}, {"dim", kDim}};
  const double gb = static_cast<double>(kBytes) / 1e9;
  return std::vector<Result>{{.workload = "dense",
                              .params = params,
                              .metric = "push GB/s",
                              .value = gb / push,
                              .limit_name = "raw TCP",
                              .limit = tcp},
                             {.workload = "dense",
                              .params = params,
                              .metric = "pull GB/s",
                              .value = gb / pull,
                              .limit_name = "raw TCP",
                              .limit = tcp},
                             {.workload = "dense",
                              .params = params,
                              .metric = "push GB/s",
                              .value = gb / push,
                              .limit_name = "memcpy",
                              .limit = MemcpyGBs()}};
}

absl::StatusOr<std::vector<Result>> Sparse(const std::string& coordinator) {
  constexpr uint32_t kDim = 16;
  constexpr size_t kBatch = 1'000;
  constexpr uint64_t kRows = 1'000'000;
  constexpr int kBatches = 500;
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Connect(coordinator, "sparse"));
  paceline::Sparse schema;
  schema.dim = kDim;
  schema.rule = Sgd{.lr = 0.01f};
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("sparse", schema));
  const std::vector<float> values(kBatch * kDim, 0.5f);
  std::vector<uint64_t> keys(kBatch);
  for (uint64_t first = 0; first < kRows; first += kBatch) {
    for (size_t i = 0; i < kBatch; ++i) keys[i] = first + i;
    (void)table.PushAsync(keys, values);
  }
  ABSL_RETURN_IF_ERROR(client->Flush());
  world::SplitMix64 random(7);
  std::vector<std::vector<uint64_t>> batches(kBatches, keys);
  for (auto& batch : batches) {
    for (uint64_t& key : batch) key = world::Uniform(random, kRows);
  }
  FirstError error;
  const double push = MedianSeconds(5, [&] {
    for (const auto& batch : batches) (void)table.PushAsync(batch, values);
    error(client->Flush());
  });
  const double pull = MedianSeconds(5, [&] {
    std::vector<Future<std::vector<float>>> pulls;
    for (const auto& batch : batches) pulls.push_back(table.PullAsync(batch));
    for (auto& pulled : pulls) error(std::move(pulled).Get().status());
  });
  ABSL_RETURN_IF_ERROR(error.status());
  const double bare = BareTableUpdatesPerSecond(kDim, kBatch, kRows);
  const nlohmann::json params{{"batch", kBatch}, {"dim", kDim}, {"rows", kRows}};
  const double keys_moved = static_cast<double>(kBatches * kBatch);
  return std::vector<Result>{{.workload = "sparse",
                              .params = params,
                              .metric = "push keys/s",
                              .value = keys_moved / push,
                              .limit_name = "bare table",
                              .limit = bare},
                             {.workload = "sparse",
                              .params = params,
                              .metric = "pull keys/s",
                              .value = keys_moved / pull,
                              .limit_name = "bare table updates",
                              .limit = bare}};
}

absl::StatusOr<std::vector<Result>> Latency(const std::string& coordinator) {
  constexpr int kRounds = 3'000;
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Connect(coordinator, "latency"));
  paceline::Sparse schema;
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("latency", schema));
  const std::vector<uint64_t> key{1};
  std::vector<float> value{1};
  FirstError error;
  const auto median_us = [&](const std::function<absl::Status()>& request) {
    std::vector<double> us;
    for (int i = 0; i < kRounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      error(request());
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    return Median(std::move(us));
  };
  ABSL_ASSIGN_OR_RETURN(const double tcp, RawTcpRoundTripUs(kRounds));
  const double push = median_us([&] { return table.Push(key, value); });
  const double pull = median_us([&] { return table.Pull(key, absl::MakeSpan(value)); });
  ABSL_RETURN_IF_ERROR(error.status());
  const nlohmann::json params{{"rows", 1}, {"outstanding", 1}};
  return std::vector<Result>{{.workload = "latency",
                              .params = params,
                              .metric = "push p50 us",
                              .value = push,
                              .limit_name = "raw TCP round trip",
                              .limit = tcp,
                              .lower_is_better = true},
                             {.workload = "latency",
                              .params = params,
                              .metric = "pull p50 us",
                              .value = pull,
                              .limit_name = "raw TCP round trip",
                              .limit = tcp,
                              .lower_is_better = true}};
}

}  // namespace paceline::bench
