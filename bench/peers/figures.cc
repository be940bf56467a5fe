#include "bench/peers/figures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/peers/meters.h"

namespace paceline::bench::peers {
namespace {

constexpr char kFlat[] = "ps-lite flat";
constexpr char kMap[] = "ps-lite map";
constexpr char kGrpcPingPong[] = "bare gRPC ping-pong";
constexpr char kMemcpy[] = "memcpy";

// Keys of a request, or bytes of a dense one.
double UnitsOf(const Data& data, const Work& work) {
  return static_cast<double>(data.dense ? data.bytes() : work.batch);
}

// One metric: its name, and its figures as they are printed.
struct Series {
  Metric metric;
  std::string name;
  std::vector<double> values;
  bool lower_is_better = true;
};

std::vector<double> Sums(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sums(a.size());
  std::ranges::transform(a, b, sums.begin(), std::plus<>());
  return sums;
}

std::vector<Series> SeriesOf(const Data& data, Op op, const Figures& figures) {
  const std::string name = NameOf(op);
  // A GB of a tensor, or a key in nanoseconds.
  const double rate_unit = data.dense ? 1e-9 : 1;
  const double cpu_unit = 1e9;
  const char* cpu_name = data.dense ? "CPU-s/GB" : "CPU ns/key";
  const auto scaled = [](std::vector<double> values, double by) {
    for (double& value : values) value *= by;
    return values;
  };
  return {
      {Metric::kRate, absl::StrCat(name, data.dense ? " GB/s" : " keys/s"), scaled(figures.rates, rate_unit),
       false},
      {Metric::kMedian, absl::StrCat(name, " p50 us"), figures.medians_us},
      {Metric::kP99, absl::StrCat(name, " p99 us"), {Quantile(figures.us, 0.99)}},
      {Metric::kCpu, absl::StrCat(name, " ", cpu_name),
       scaled(Sums(figures.client_cpu, figures.server_cpu), cpu_unit)},
      {Metric::kClientCpu, absl::StrCat(name, " client ", cpu_name), scaled(figures.client_cpu, cpu_unit)},
      {Metric::kServerCpu, absl::StrCat(name, " server ", cpu_name), scaled(figures.server_cpu, cpu_unit)},
  };
}

// What a system is measured for: memcpy has no server and no requests, a ping-pong has no rows.
bool Has(const std::string& system, Metric metric) {
  if (system == kMemcpy) return metric == Metric::kRate;
  if (system == kGrpcPingPong) return metric == Metric::kMedian || metric == Metric::kP99;
  return true;
}

nlohmann::json Spread(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  return {low, high};
}

nlohmann::json ParamsOf(const Data& data, Kind kind) {
  return {{"data", data.name}, {"rows", data.rows}, {"dim", data.dim}, {"table", NameOf(kind)}};
}

}  // namespace

void Figures::Add(const Turn& turn, const Data& data, const Work& work) {
  const double units = UnitsOf(data, work) * static_cast<double>(turn.us.size());
  rates.push_back(units / turn.seconds);
  medians_us.push_back(Quantile(turn.us, 0.5));
  client_cpu.push_back(turn.client_cpu_seconds / units);
  server_cpu.push_back(turn.server_cpu_seconds / units);
  us.insert(us.end(), turn.us.begin(), turn.us.end());
}

std::vector<Result> Compare(const Data& data, const Work& work, Op op, Kind kind, const Figures& ours,
                            const Beside& beside) {
  std::vector<Result> results;
  const std::vector<Series> own = SeriesOf(data, op, ours);
  const std::vector<Series> other =
      beside.figures == nullptr ? std::vector<Series>() : SeriesOf(data, op, *beside.figures);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!Has(beside.name, own[i].metric)) continue;
    nlohmann::json params = ParamsOf(data, kind);
    params["batch"] = work.batch;
    params["outstanding"] = work.outstanding;
    params["rounds"] = ours.rates.size();
    params["spread"] = Spread(own[i].values);
    if (beside.figures != nullptr) params["limit_spread"] = Spread(other[i].values);
    results.push_back({.workload = "peers",
                       .params = std::move(params),
                       .metric = own[i].name,
                       .value = Median(own[i].values),
                       .limit_name = beside.name,
                       .limit = beside.figures == nullptr ? 0 : Median(other[i].values),
                       .lower_is_better = own[i].lower_is_better,
                       .skipped = beside.skipped,
                       .goal = GoalOf(own[i].metric, work, op, kind, beside.name)});
  }
  return results;
}

Result CompareMemory(const Data& data, Kind kind, double ours, const Beside& beside, double theirs) {
  return {.workload = "peers",
          .params = ParamsOf(data, kind),
          .metric = data.dense ? "resident bytes/byte" : "resident bytes/row",
          .value = ours,
          .limit_name = beside.name,
          .limit = beside.skipped.empty() ? theirs : 0,
          .lower_is_better = true,
          .skipped = beside.skipped};
}

std::optional<double> GoalOf(Metric metric, const Work& work, Op op, Kind kind, const std::string& beside) {
  if (beside == kGrpcPingPong && !IsNear(kind))
    return metric == Metric::kMedian ? std::optional(1.3) : std::nullopt;
  if (beside == kMap) return metric == Metric::kRate ? std::optional(1.0) : std::nullopt;
  if (beside != kFlat) return std::nullopt;
  if (IsNear(kind)) return metric == Metric::kRate ? std::optional(1.0) : std::nullopt;
  const bool ranged = kind == Kind::kRanged;
  const bool one = work.outstanding == 1;
  if (metric == Metric::kCpu && !one) return ranged ? 1.7 : 2.2;
  if (metric != Metric::kRate) return std::nullopt;
  if (one) return ranged ? 1.0 : work.batch <= 1'000 ? 0.8 : 0.65;
  if (op == Op::kPull) return ranged ? 1.0 : 0.8;
  return ranged ? 0.8 : 0.65;
}

}  // namespace paceline::bench::peers
