#include "bench/skew.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "absl/time/clock.h"
#include "bench/session.h"
#include "bench/zipf.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench {
namespace {

constexpr int kShards = 4;
constexpr double kExponent = 1.1;
constexpr uint64_t kKeys = 1'000'000;
constexpr size_t kBatch = 1000;
constexpr uint32_t kDim = 8;
constexpr double kAim = 1.25;

absl::Status PushAndPull(const Zipf& zipf, Table table, const std::atomic<bool>& stop) {
  world::SplitMix64 random(7);
  const std::vector<float> values(kBatch * kDim, 1);
  std::vector<uint64_t> keys(kBatch);
  while (!stop) {
    for (uint64_t& key : keys) key = zipf.Draw(random);
    Future<void> pushed = table.PushAsync(keys, values);
    ABSL_RETURN_IF_ERROR(table.PullAsync(keys).Get().status());
    ABSL_RETURN_IF_ERROR(std::move(pushed).Get());
  }
  return absl::OkStatus();
}

// Rows that each shard has applied and served so far.
std::vector<double> RowsOf(const ShardPages& pages) {
  std::vector<double> rows = pages.Each("paceline_shard_rows_pushed_total");
  const std::vector<double> pulled = pages.Each("paceline_shard_rows_pulled_total");
  for (size_t i = 0; i < rows.size(); ++i) rows[i] += pulled[i];
  return rows;
}

struct Stretch {
  double until_s = 0;
  double rows_per_s = 0;
  double peak = 0;  // in means
};

absl::StatusOr<std::vector<Stretch>> Watch(const ShardPages& pages, absl::Duration lasts,
                                           absl::Duration stretch) {
  const absl::Time began = world::MonotonicNow();
  std::vector<Stretch> stretches;
  std::vector<double> before = RowsOf(pages);
  absl::Time at = began;
  while (at < began + lasts) {
    absl::SleepFor(stretch);
    const std::vector<double> now = RowsOf(pages);
    const absl::Time then = std::exchange(at, world::MonotonicNow());
    std::vector<double> rows(now.size());
    for (size_t i = 0; i < now.size(); ++i) rows[i] = now[i] - before[i];
    const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    if (sum <= 0) return absl::InternalError("skew: the shards say that nobody pushes or pulls");
    stretches.push_back({.until_s = absl::ToDoubleSeconds(at - began),
                         .rows_per_s = sum / absl::ToDoubleSeconds(at - then),
                         .peak = std::ranges::max(rows) * static_cast<double>(rows.size()) / sum});
    before = now;
  }
  return stretches;
}

std::vector<Result> ResultsOf(const std::vector<Stretch>& stretches, size_t shards) {
  nlohmann::json over_time = nlohmann::json::array();
  double below_since =
      0;  // the end of the stretch from which on all are below the aim; 0: the last one is not
  double at_a_minute = 0;
  for (const Stretch& stretch : stretches) {
    over_time.push_back(
        {{"until s", stretch.until_s}, {"rows/s", stretch.rows_per_s}, {"max/mean", stretch.peak}});
    if (stretch.peak >= kAim) {
      below_since = 0;
    } else if (below_since == 0) {
      below_since = stretch.until_s;
    }
    if (stretch.until_s < 65 || at_a_minute == 0) at_a_minute = stretch.peak;
  }
  const nlohmann::json params{{"shards", shards},
                              {"keys", kKeys},
                              {"exponent", kExponent},
                              {"batch", kBatch},
                              {"over time", over_time}};
  const auto result = [&](const char* metric, double value, const char* limit_name, double limit) {
    return Result{.workload = "skew",
                  .params = params,
                  .metric = metric,
                  .value = value,
                  .limit_name = limit_name,
                  .limit = limit,
                  .lower_is_better = true};
  };
  return {
      result("max/mean rows/s after a minute", at_a_minute, "aim", kAim),
      result("max/mean rows/s at the end", stretches.back().peak, "at the beginning", stretches.front().peak),
      result("s until max/mean stays below 1.25 (0: never)", below_since, "aim", 60)};
}

absl::StatusOr<std::vector<Result>> Run(const Setting& setting, const std::string& coordinator) {
  ABSL_ASSIGN_OR_RETURN(const ShardPages pages, ShardPages::Of(coordinator));
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                        Client::Connect({.coordinator = coordinator,
                                         .job = "bench-skew",
                                         .client_name = "paceline-bench",
                                         .cache_bytes_max = 0,
                                         .record = setting.record}));
  const paceline::Sparse schema{.dim = kDim, .rule = Add{}, .consistency = Asp{}};
  ABSL_ASSIGN_OR_RETURN(const Table table, client->OpenOrCreate("skew", schema));
  const Zipf zipf(kKeys, kExponent);
  std::atomic<bool> stop = false;
  absl::Status worked;
  std::thread worker([&] { worked = PushAndPull(zipf, table, stop); });
  auto stretches = setting.smallest ? Watch(pages, absl::Seconds(1), absl::Milliseconds(500))
                                    : Watch(pages, absl::Seconds(setting.seconds), absl::Seconds(5));
  stop = true;
  worker.join();
  ABSL_RETURN_IF_ERROR(worked);
  if (!stretches.ok()) return stretches.status();
  return ResultsOf(*stretches, RowsOf(pages).size());
}

}  // namespace

absl::StatusOr<std::vector<Result>> Skew(const Setting& setting) {
  if (!setting.coordinator.empty()) return Run(setting, setting.coordinator);
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  tool::LocalCluster cluster(
      *supervisor, *folder,
      {.programs = tool::FolderOfPrograms(), .shards = kShards, .replicas = 0, .balance_load = true});
  const absl::Status started = cluster.Start();
  absl::StatusOr<std::vector<Result>> results = std::vector<Result>();
  if (started.ok()) results = Run(setting, cluster.address());
  cluster.Stop();
  return started.ok() ? results : started;
}

}  // namespace paceline::bench
