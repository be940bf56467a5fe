#include "bench/workloads.h"

#include <cstdio>
#include <functional>
#include <optional>

#include "bench/grpc_limit.h"
#include "bench/limits.h"
#include "bench/session.h"
#include "bench/zipf.h"
#include "libs/world/random.h"

namespace paceline::bench {
namespace {

// Of the SDK, less what a frame holds beside its values.
constexpr size_t kFrameBytes = (size_t{1} << 20) - (size_t{1} << 14);

constexpr double kZipfExponent = 1.1;

// The results of one run of Dense, each a median of its rounds.
struct DenseRun {
  double tcp_gbs = 0;
  Cost bare_push, bare_pull, push, push_ahead, pull;
};

// Each is done so often in a row, so that its beginning and its end weigh little.
constexpr int kInARow = 4;

absl::StatusOr<DenseRun> RunDense(const Session& session, Table table, BareStream& bare,
                                  std::vector<float>& values, int rounds) {
  const size_t bytes = values.size() * sizeof(float);
  FirstError error;
  const auto measured = [&](absl::StatusOr<Cost> cost, std::vector<Cost>& costs) {
    error(cost.status());
    if (cost.ok()) costs.push_back(*cost);
  };
  std::vector<double> tcp;
  std::vector<Cost> bare_push, bare_pull, push, push_ahead, pull;
  const auto in_a_row = [](const auto& work) {
    for (int i = 0; i < kInARow; ++i) work();
  };
  for (int round = 0; round < rounds; ++round) {  // side by side: the machine's mood changes
    ABSL_ASSIGN_OR_RETURN(const double gbs, RawTcpGBs(size_t{1} << 20, kInARow * bytes));
    tcp.push_back(gbs);
    measured(bare.Push(kFrameBytes, kInARow * bytes), bare_push);
    push.push_back(Measure(session.cpu, [&] { in_a_row([&] { error(table.PushRange(0, values)); }); }));
    push_ahead.push_back(Measure(session.cpu, [&] {
      in_a_row([&] { (void)table.PushRangeAsync(0, values); });
      error(session.client->Flush());
    }));
    measured(bare.Pull(kFrameBytes, kInARow * bytes), bare_pull);
    pull.push_back(
        Measure(session.cpu, [&] { in_a_row([&] { error(table.PullRange(0, absl::MakeSpan(values))); }); }));
  }
  ABSL_RETURN_IF_ERROR(error.status());
  for (std::vector<Cost>* costs : {&bare_push, &bare_pull, &push, &push_ahead, &pull}) {
    for (Cost& cost : *costs) {
      cost.seconds /= kInARow;
      cost.cpu_seconds /= kInARow;
    }
  }
  return DenseRun{.tcp_gbs = Median(std::move(tcp)),
                  .bare_push = Median(bare_push),
                  .bare_pull = Median(bare_pull),
                  .push = Median(push),
                  .push_ahead = Median(push_ahead),
                  .pull = Median(pull)};
}

}  // namespace

absl::StatusOr<std::vector<Result>> Dense(const Setting& setting) {
  constexpr uint32_t kDim = 64;
  constexpr int kTries = 5;
  const size_t bytes = (setting.smallest ? size_t{1} : size_t{64}) << 20;
  const double gb = static_cast<double>(bytes) / 1e9;
  ABSL_ASSIGN_OR_RETURN(
      const Session session,
      Session::Open(setting, "dense", 0, /*unacknowledged_bytes_max=*/2 * bytes + (1 << 20)));
  Ranged schema;
  schema.rows = bytes / (kDim * sizeof(float));
  schema.dim = kDim;
  schema.rule = Add{};
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, session.client->OpenOrCreate("dense", schema));
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<BareStream> bare, BareStream::Open());
  std::vector<float> values(schema.rows * kDim, 0.5f);
  ABSL_RETURN_IF_ERROR(table.PushRange(0, values));  // the rows are born, memory is touched
  DenseRun run;
  double worst = 0;
  for (int attempt = 1; worst < 0.5; ++attempt) {
    ABSL_ASSIGN_OR_RETURN(run, RunDense(session, table, *bare, values, setting.Rounds(9)));
    worst = gb / std::max(run.bare_push.seconds, run.bare_pull.seconds) / run.tcp_gbs;
    if (worst >= 0.5 || setting.smallest) break;
    std::fprintf(stderr, "paceline-bench: void: a bare gRPC stream reached %.2f of raw TCP (%.2f GB/s)\n",
                 worst, run.tcp_gbs);
    if (attempt == kTries) {
      return absl::UnavailableError(
          "dense: a bare gRPC stream stayed below half of raw TCP; the machine is too busy to measure on");
    }
  }
  const nlohmann::json params{{"MB", bytes >> 20}, {"dim", kDim}};
  const double memcpy_gbs = MemcpyGBs();
  std::vector<Result> results;
  const auto add = [&](const char* metric, double value, const char* limit_name, double limit, bool lower) {
    results.push_back({.workload = "dense",
                       .params = params,
                       .metric = metric,
                       .value = value,
                       .limit_name = limit_name,
                       .limit = limit,
                       .lower_is_better = lower});
  };
  add("push GB/s", gb / run.push.seconds, "bare gRPC push", gb / run.bare_push.seconds, false);
  add("push ahead GB/s", gb / run.push_ahead.seconds, "bare gRPC push", gb / run.bare_push.seconds, false);
  add("pull GB/s", gb / run.pull.seconds, "bare gRPC pull", gb / run.bare_pull.seconds, false);
  add("push CPU-s/GB", run.push.cpu_seconds / gb, "bare gRPC push", run.bare_push.cpu_seconds / gb, true);
  add("pull CPU-s/GB", run.pull.cpu_seconds / gb, "bare gRPC pull", run.bare_pull.cpu_seconds / gb, true);
  add("push GB/s", gb / run.push.seconds, "memcpy", memcpy_gbs, false);
  add("bare gRPC push GB/s", gb / run.bare_push.seconds, "raw TCP", run.tcp_gbs, false);
  add("bare gRPC pull GB/s", gb / run.bare_pull.seconds, "raw TCP", run.tcp_gbs, false);
  return results;
}

namespace {

// A table of random rows and batches of their keys.
struct SparseRows {
  static constexpr size_t kBatch = 1'000;
  static constexpr size_t kBytesAKey = sizeof(uint64_t) + kSparseDim * sizeof(float);

  uint64_t rows = 0;
  Session session;
  std::optional<Table> table;
  std::vector<std::vector<uint64_t>> batches;
  std::vector<float> values = std::vector<float>(kBatch * kSparseDim, 0.5f);

  double moved() const { return static_cast<double>(batches.size() * kBatch); }
  nlohmann::json params() const { return {{"batch", kBatch}, {"dim", kSparseDim}, {"rows", rows}}; }
  // Keys a second that raw TCP carries with their values.
  absl::StatusOr<double> TcpKeys() const {
    ABSL_ASSIGN_OR_RETURN(const double gbs,
                          RawTcpGBs(kBatch * kBytesAKey, batches.size() * kBatch * kBytesAKey));
    return gbs * 1e9 / kBytesAKey;
  }

  // All rows are there when it returns. By Zipf's law the hot rows are spread over the table's keys.
  static absl::StatusOr<SparseRows> Open(const Setting& setting, const std::string& workload, bool by_zipf) {
    SparseRows all;
    all.rows = setting.smallest ? 10'000 : 1'000'000;
    ABSL_ASSIGN_OR_RETURN(all.session, Session::Open(setting, workload, 0));
    Client& client = *all.session.client;
    const paceline::Sparse schema{.dim = kSparseDim, .rule = Sgd{.lr = 0.01f}, .consistency = Asp{}};
    ABSL_ASSIGN_OR_RETURN(all.table, client.OpenOrCreate(workload, schema));
    std::vector<uint64_t> keys(kBatch);
    for (uint64_t first = 0; first < all.rows; first += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) keys[i] = first + i;
      (void)all.table->PushAsync(keys, all.values);
    }
    ABSL_RETURN_IF_ERROR(client.Flush());
    world::SplitMix64 random(7);
    std::optional<Zipf> zipf;
    if (by_zipf) zipf.emplace(all.rows, kZipfExponent);
    all.batches.assign(setting.smallest ? 10 : 500, keys);
    for (auto& batch : all.batches) {
      for (uint64_t& key : batch) {
        key = by_zipf ? zipf->Draw(random) * 7'919 % all.rows : world::Uniform(random, all.rows);
      }
    }
    return all;
  }
};

absl::StatusOr<std::vector<Result>> RunSparse(const Setting& setting, const std::string& workload,
                                              bool by_zipf) {
  ABSL_ASSIGN_OR_RETURN(SparseRows all, SparseRows::Open(setting, workload, by_zipf));
  FirstError error;
  BareTable bare(kSparseDim, all.rows);
  std::vector<double> tcp_keys;
  std::vector<Cost> push, pull, updates, reads;
  for (int round = -1; round < setting.Rounds(7); ++round) {  // side by side: the machine's mood changes
    const Cost pushed = Measure(all.session.cpu, [&] {
      for (const auto& batch : all.batches) (void)all.table->PushAsync(batch, all.values);
      error(all.session.client->Flush());
    });
    const Cost pulled = Measure(all.session.cpu, [&] {
      std::vector<Future<std::vector<float>>> pulls;
      for (const auto& batch : all.batches) pulls.push_back(all.table->PullAsync(batch));
      for (auto& one : pulls) error(std::move(one).Get().status());
    });
    ABSL_RETURN_IF_ERROR(error.status());
    ABSL_ASSIGN_OR_RETURN(const double tcp, all.TcpKeys());
    const Cost updated = bare.Update(all.batches);
    const Cost read = bare.Read(all.batches);
    if (round < 0) continue;  // warms up
    push.push_back(pushed);
    pull.push_back(pulled);
    tcp_keys.push_back(tcp);
    updates.push_back(updated);
    reads.push_back(read);
  }
  std::vector<Result> results;
  const auto add = [&](const char* metric, double value, const char* limit_name, double limit, bool lower) {
    results.push_back({.workload = workload,
                       .params = all.params(),
                       .metric = metric,
                       .value = value,
                       .limit_name = limit_name,
                       .limit = limit,
                       .lower_is_better = lower});
  };
  const auto a_second = [&](const std::vector<Cost>& costs) { return all.moved() / Median(costs).seconds; };
  const auto cpu_ns = [&](const std::vector<Cost>& costs) {
    return Median(costs).cpu_seconds / all.moved() * 1e9;
  };
  const double tcp = Median(tcp_keys);
  add("push keys/s", a_second(push), "raw TCP, the same bytes", tcp, false);
  add("pull keys/s", a_second(pull), "raw TCP, the same bytes", tcp, false);
  add("push keys/s", a_second(push), "bare table updates", a_second(updates), false);
  add("pull keys/s", a_second(pull), "bare table reads", a_second(reads), false);
  add("push CPU ns/key", cpu_ns(push), "bare table updates", cpu_ns(updates), true);
  add("pull CPU ns/key", cpu_ns(pull), "bare table reads", cpu_ns(reads), true);
  return results;
}

}  // namespace

absl::StatusOr<std::vector<Result>> Sparse(const Setting& setting) {
  return RunSparse(setting, "sparse", /*by_zipf=*/false);
}

absl::StatusOr<std::vector<Result>> Zipfian(const Setting& setting) {
  return RunSparse(setting, "zipf", /*by_zipf=*/true);
}

absl::StatusOr<std::vector<Result>> Mixed(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(SparseRows all, SparseRows::Open(setting, "mixed", /*by_zipf=*/false));
  FirstError error;
  std::vector<double> tcp_keys;
  std::vector<Cost> costs;
  for (int round = -1; round < setting.Rounds(7); ++round) {  // side by side: the machine's mood changes
    const Cost cost = Measure(all.session.cpu, [&] {
      std::vector<Future<std::vector<float>>> pulls;
      for (size_t i = 0; i < all.batches.size(); ++i) {
        (void)all.table->PushAsync(all.batches[i], all.values);
        pulls.push_back(all.table->PullAsync(all.batches[all.batches.size() - 1 - i]));
      }
      for (auto& one : pulls) error(std::move(one).Get().status());
      error(all.session.client->Flush());
    });
    ABSL_RETURN_IF_ERROR(error.status());
    ABSL_ASSIGN_OR_RETURN(const double tcp, all.TcpKeys());
    if (round < 0) continue;  // warms up
    costs.push_back(cost);
    tcp_keys.push_back(tcp);
  }
  return std::vector<Result>{{.workload = "mixed",
                              .params = all.params(),
                              .metric = "push and pull keys/s",
                              .value = 2 * all.moved() / Median(costs).seconds,
                              .limit_name = "raw TCP, the same bytes one way",
                              .limit = Median(tcp_keys)},
                             {.workload = "mixed",
                              .params = all.params(),
                              .metric = "CPU ns/key",
                              .value = Median(costs).cpu_seconds / (2 * all.moved()) * 1e9,
                              .limit_name = "raw TCP, the time of a key",
                              .limit = 1e9 / Median(tcp_keys),
                              .lower_is_better = true}};
}

absl::StatusOr<std::vector<Result>> Whole(const Setting& setting) {
  const uint64_t rows = ((setting.smallest ? uint64_t{1} : uint64_t{64}) << 20) / (kWholeDim * sizeof(float));
  const int rounds = setting.Rounds(9);
  ABSL_ASSIGN_OR_RETURN(const Session session, Session::Open(setting, "whole", 0));
  const Ranged schema{.rows = rows, .dim = kWholeDim, .rule = Add{}, .consistency = Asp{}};
  ABSL_ASSIGN_OR_RETURN(Table table, session.client->OpenOrCreate("whole", schema));
  std::vector<float> values(rows * kWholeDim, 0.5f);
  FirstError error;
  const Cost push = MedianCost(rounds, session.cpu, [&] { error(table.PushRange(0, values)); });
  const Cost pull =
      MedianCost(rounds, session.cpu, [&] { error(table.PullRange(0, absl::MakeSpan(values))); });
  ABSL_RETURN_IF_ERROR(error.status());
  std::vector<Result> results;
  const auto add = [&](const char* metric, double value) {
    results.push_back(
        {.workload = "whole", .params = {}, .metric = metric, .value = value, .limit_name = "", .limit = 0});
  };
  const auto moved = static_cast<double>(rows);
  add("push keys/s", moved / push.seconds);
  add("pull keys/s", moved / pull.seconds);
  add("push CPU ns/key", push.cpu_seconds / moved * 1e9);
  return results;
}

absl::StatusOr<std::vector<Result>> Latency(const Setting& setting) {
  const int rounds = setting.Rounds(7);
  const int requests = setting.smallest ? 20 : 500;
  ABSL_ASSIGN_OR_RETURN(const Session session, Session::Open(setting, "latency", 0));
  paceline::Sparse schema;
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, session.client->OpenOrCreate("latency", schema));
  const std::vector<uint64_t> key{1};
  std::vector<float> value{1};
  FirstError error;
  const auto median_us = [&](const std::function<absl::Status()>& request) {
    return MedianUs(requests, request, error);
  };
  std::vector<double> tcp, pushes, pulls;
  for (int round = 0; round < rounds; ++round) {  // side by side: the machine's mood changes
    ABSL_ASSIGN_OR_RETURN(const double round_trip, RawTcpRoundTripUs(requests));
    tcp.push_back(round_trip);
    pushes.push_back(median_us([&] { return table.Push(key, value); }));
    pulls.push_back(median_us([&] { return table.Pull(key, absl::MakeSpan(value)); }));
  }
  ABSL_RETURN_IF_ERROR(error.status());
  const nlohmann::json params{{"rows", 1}, {"outstanding", 1}};
  std::vector<Result> results;
  for (const auto& [metric, us] :
       {std::pair{"push p50 us", Median(pushes)}, std::pair{"pull p50 us", Median(pulls)}}) {
    results.push_back({.workload = "latency",
                       .params = params,
                       .metric = metric,
                       .value = us,
                       .limit_name = "raw TCP round trip",
                       .limit = Median(tcp),
                       .lower_is_better = true});
  }
  return results;
}

}  // namespace paceline::bench
