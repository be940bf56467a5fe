#include "bench/near.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/limits.h"
#include "bench/session.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "paceline/client.h"

namespace paceline::bench {
namespace {

constexpr char kOwnTcp[] = "the same over TCP";

// Two clients of jobs of their own, one over each transport, with a table of the same schema.
struct Pair {
  struct Side {
    Session session;
    std::optional<Table> table;
  };
  Side tcp;
  Side near;

  static absl::StatusOr<Pair> Open(const Setting& setting, const std::string& workload,
                                   const TableSchema& schema, uint64_t unacknowledged_bytes_max) {
    Pair pair;
    for (const bool is_near : {false, true}) {
      Setting one = setting;
      one.near = is_near;
      Side& side = is_near ? pair.near : pair.tcp;
      ABSL_ASSIGN_OR_RETURN(side.session,
                            Session::Open(one, absl::StrCat(workload, is_near ? "-near" : "-tcp"), 0,
                                          unacknowledged_bytes_max));
      ABSL_ASSIGN_OR_RETURN(side.table, side.session.client->OpenOrCreate(workload, schema));
    }
    return pair;
  }

  absl::Status CheckNear() const {
    const Stats stats = near.session.client->stats();
    const uint64_t far = stats.streams_direct + stats.streams_grpc;
    if (far == 0 && stats.streams_shared_memory > 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("shared memory: ", far,
                                               " streams go over TCP; give --socket-dir, or "
                                               "PACELINE_SOCKET_DIR, to the cluster as well"));
  }
};

// What both sides cost, a round after the other, after one that warms up.
struct Costs {
  std::vector<Cost> tcp;
  std::vector<Cost> near;
};
using Work = std::function<absl::Status(Pair::Side& side)>;
absl::Status MeasureBoth(Pair& pair, const Work& work, bool warms_up, Costs& costs) {
  FirstError error;
  for (Pair::Side* side : {&pair.tcp, &pair.near}) {
    const Cost cost = Measure(side->session.cpu, [&] { error(work(*side)); });
    if (!warms_up) (side == &pair.tcp ? costs.tcp : costs.near).push_back(cost);
  }
  return error.status();
}

class Rows {
 public:
  Rows(std::string workload, nlohmann::json params)
      : workload_(std::move(workload)), params_(std::move(params)) {
    params_["transport"] = "shared memory";
  }
  void Add(const std::string& metric, double value, const char* limit_name, double limit, bool lower,
           std::optional<double> goal = {}) {
    rows_.push_back({.workload = workload_,
                     .params = params_,
                     .metric = metric,
                     .value = value,
                     .limit_name = limit_name,
                     .limit = limit,
                     .lower_is_better = lower,
                     .goal = goal});
  }
  std::vector<Result> Take() { return std::move(rows_); }

 private:
  const std::string workload_;
  nlohmann::json params_;
  std::vector<Result> rows_;
};

}  // namespace

absl::StatusOr<std::vector<Result>> DenseNear(const Setting& setting) {
  constexpr uint32_t kDim = 64;
  constexpr double kGoal = 2;
  const size_t bytes = (setting.smallest ? size_t{1} : size_t{64}) << 20;
  const double gb = static_cast<double>(bytes) / 1e9;
  const Ranged schema{
      .rows = bytes / (kDim * sizeof(float)), .dim = kDim, .rule = paceline::Add{}, .consistency = Asp{}};
  ABSL_ASSIGN_OR_RETURN(Pair pair, Pair::Open(setting, "dense", schema, 2 * bytes + (1 << 20)));
  std::vector<float> values(bytes / sizeof(float), 0.5f);
  Costs push, pull;
  for (int round = -1; round < setting.Rounds(9); ++round) {
    ABSL_RETURN_IF_ERROR(MeasureBoth(
        pair, [&](Pair::Side& side) { return side.table->PushRange(0, values); }, round < 0, push));
    ABSL_RETURN_IF_ERROR(MeasureBoth(
        pair, [&](Pair::Side& side) { return side.table->PullRange(0, absl::MakeSpan(values)); }, round < 0,
        pull));
  }
  ABSL_RETURN_IF_ERROR(pair.CheckNear());
  Rows rows("dense", {{"MB", bytes >> 20}, {"dim", kDim}});
  for (const auto& [name, costs] : {std::pair("push", &push), std::pair("pull", &pull)}) {
    const Cost tcp = Median(costs->tcp), near = Median(costs->near);
    rows.Add(absl::StrCat(name, " GB/s"), gb / near.seconds, kOwnTcp, gb / tcp.seconds, false, kGoal);
    rows.Add(absl::StrCat(name, " CPU-s/GB"), near.cpu_seconds / gb, kOwnTcp, tcp.cpu_seconds / gb, true);
  }
  return rows.Take();
}

absl::StatusOr<std::vector<Result>> SparseNear(const Setting& setting) {
  constexpr size_t kBatch = 1'000;
  const uint64_t rows = setting.smallest ? 10'000 : 1'000'000;
  const paceline::Sparse schema{.dim = kSparseDim, .rule = Sgd{.lr = 0.01f}, .consistency = Asp{}};
  ABSL_ASSIGN_OR_RETURN(Pair pair, Pair::Open(setting, "sparse", schema, uint64_t{64} << 20));
  std::vector<std::vector<uint64_t>> batches(setting.smallest ? 10 : 300, std::vector<uint64_t>(kBatch));
  world::SplitMix64 random(11);
  for (auto& batch : batches) {
    for (uint64_t& key : batch) key = world::Uniform(random, rows);
  }
  std::vector<float> values(kBatch * kSparseDim, 0.5f);
  const Work push_one = [&](Pair::Side& side) {
    FirstError error;
    for (const auto& batch : batches) error(side.table->Push(batch, values));
    return error.status();
  };
  const Work pull_one = [&](Pair::Side& side) {
    FirstError error;
    for (const auto& batch : batches) error(side.table->Pull(batch, absl::MakeSpan(values)));
    return error.status();
  };
  const Work push_all = [&](Pair::Side& side) {
    for (const auto& batch : batches) (void)side.table->PushAsync(batch, values);
    return side.session.client->Flush();
  };
  const Work pull_all = [&](Pair::Side& side) {
    FirstError error;
    std::vector<Future<std::vector<float>>> pulls;
    for (const auto& batch : batches) pulls.push_back(side.table->PullAsync(batch));
    for (auto& one : pulls) error(std::move(one).Get().status());
    return error.status();
  };
  const std::pair<const char*, const Work*> kinds[] = {{"push, one outstanding,", &push_one},
                                                       {"pull, one outstanding,", &pull_one},
                                                       {"push", &push_all},
                                                       {"pull", &pull_all}};
  Costs costs[std::size(kinds)];
  for (int round = -1; round < setting.Rounds(7); ++round) {
    for (size_t kind = 0; kind < std::size(kinds); ++kind) {
      ABSL_RETURN_IF_ERROR(MeasureBoth(pair, *kinds[kind].second, round < 0, costs[kind]));
    }
  }
  ABSL_RETURN_IF_ERROR(pair.CheckNear());
  Rows out("sparse", {{"batch", kBatch}, {"dim", kSparseDim}, {"rows", rows}});
  const auto moved = static_cast<double>(batches.size() * kBatch);
  for (size_t kind = 0; kind < std::size(kinds); ++kind) {
    const Cost tcp = Median(costs[kind].tcp), near = Median(costs[kind].near);
    out.Add(absl::StrCat(kinds[kind].first, " keys/s"), moved / near.seconds, kOwnTcp, moved / tcp.seconds,
            false);
    out.Add(absl::StrCat(kinds[kind].first, " CPU ns/key"), near.cpu_seconds / moved * 1e9, kOwnTcp,
            tcp.cpu_seconds / moved * 1e9, true);
  }
  return out.Take();
}

absl::StatusOr<std::vector<Result>> LatencyNear(const Setting& setting) {
  constexpr double kGoal = 1.5;
  const int requests = setting.smallest ? 20 : 500;
  const paceline::Sparse schema{.consistency = Asp{}};
  ABSL_ASSIGN_OR_RETURN(Pair pair, Pair::Open(setting, "latency", schema, uint64_t{64} << 20));
  const std::vector<uint64_t> key{1};
  std::vector<float> value{1};
  FirstError error;
  const auto median_us = [&](const std::function<absl::Status()>& request) {
    return MedianUs(requests, request, error);
  };
  std::vector<double> futex, tcp_push, tcp_pull, near_push, near_pull;
  for (int round = 0; round < setting.Rounds(7); ++round) {
    futex.push_back(FutexRoundTripUs(requests));
    tcp_push.push_back(median_us([&] { return pair.tcp.table->Push(key, value); }));
    near_push.push_back(median_us([&] { return pair.near.table->Push(key, value); }));
    tcp_pull.push_back(median_us([&] { return pair.tcp.table->Pull(key, absl::MakeSpan(value)); }));
    near_pull.push_back(median_us([&] { return pair.near.table->Pull(key, absl::MakeSpan(value)); }));
  }
  ABSL_RETURN_IF_ERROR(error.status());
  ABSL_RETURN_IF_ERROR(pair.CheckNear());
  Rows rows("latency", {{"rows", 1}, {"outstanding", 1}});
  rows.Add("push p50 us", Median(near_push), "futex round trip", Median(futex), true, kGoal);
  rows.Add("pull p50 us", Median(near_pull), "futex round trip", Median(futex), true, kGoal);
  rows.Add("push p50 us", Median(near_push), kOwnTcp, Median(tcp_push), true);
  rows.Add("pull p50 us", Median(near_pull), kOwnTcp, Median(tcp_pull), true);
  return rows.Take();
}

absl::StatusOr<std::vector<Result>> WithNear(absl::StatusOr<std::vector<Result>> results,
                                             const Setting& setting,
                                             absl::StatusOr<std::vector<Result>> (*near)(const Setting&)) {
  if (!results.ok() || setting.socket_dir.empty()) return results;
  ABSL_ASSIGN_OR_RETURN(const std::vector<Result> more, near(setting));
  results->insert(results->end(), more.begin(), more.end());
  return results;
}

}  // namespace paceline::bench
