#include "bench/p3.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/limited_link.h"
#include "bench/session.h"
#include "libs/base/status.h"
#include "libs/world/wall_clock.h"
#include "paceline/client.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench {
namespace p3 {
namespace {

constexpr uint32_t kDim = 64;
constexpr float kRate = 0.1f;  // of learning
constexpr uint64_t kSliceMax = (uint64_t{1} << 20) - (uint64_t{1} << 14);
constexpr uint64_t kSlice = 128 << 10;

struct Layer {
  uint64_t rows = 0;
  absl::Duration forward, backward;

  double bytes() const { return static_cast<double>(rows) * kDim * sizeof(float); }
};

struct Net {
  std::vector<Layer> layers;
  int warm = 2;         // iterations before those that are timed
  int iterations = 12;  // that are
  double bytes_per_second = 25e6;

  static Net Of(const Setting& setting) {
    Net net;
    net.layers.assign(8, {.rows = 256, .forward = absl::Milliseconds(8), .backward = absl::Milliseconds(16)});
    net.layers.push_back(
        {.rows = 10'000, .forward = absl::Milliseconds(4), .backward = absl::Milliseconds(8)});
    if (setting.quick) net.iterations = 8;
    if (!setting.smallest) return net;
    for (Layer& layer : net.layers) layer.forward = layer.backward = absl::Milliseconds(1);
    net.layers.back().rows = 1'000;
    net.warm = 1;
    net.iterations = 2;
    return net;
  }
  absl::Duration Computation() const {
    absl::Duration sum;
    for (const Layer& layer : layers) sum += layer.forward + layer.backward;
    return sum;
  }
  // Of each direction: every layer is pushed once and pulled once.
  absl::Duration Communication() const {
    double bytes = 0;
    for (const Layer& layer : layers) bytes += layer.bytes();
    return absl::Seconds(bytes / bytes_per_second);
  }
};

struct Variant {
  bool whole = false;  // a layer is asked for when its push has ended
  bool prioritised = false;
  uint64_t slice_bytes = kSliceMax;
};

struct Run {
  double seconds = 0;          // of an iteration
  std::vector<double> losses;  // of each
};

// One worker's training. Under SSP(1) with one worker a pull holds all pushes before it and nothing else, so
// every variant computes the same.
class Training {
 public:
  Training(const Net& net, const Variant& variant, Client& client)
      : net_(net), variant_(variant), client_(client) {}

  absl::StatusOr<Run> Go() {
    for (size_t l = 0; l < net_.layers.size(); ++l) {
      ABSL_ASSIGN_OR_RETURN(Table table, client_.OpenOrCreate(absl::StrCat("layer-", l),
                                                              Ranged{.rows = net_.layers[l].rows,
                                                                     .dim = kDim,
                                                                     .rule = Sgd{.lr = kRate},
                                                                     .consistency = Ssp{.staleness = 1}}));
      tables_.push_back(std::move(table));
      coming_.push_back(Pull(l, {}));
    }
    Run run;
    absl::Time began;
    for (int i = 0; i < net_.warm + net_.iterations; ++i) {
      if (i == net_.warm) began = absl::Now();
      ABSL_ASSIGN_OR_RETURN(const double loss, Iterate());
      run.losses.push_back(loss);
    }
    run.seconds = absl::ToDoubleSeconds(absl::Now() - began) / net_.iterations;
    for (Future<std::vector<float>>& last : coming_) ABSL_RETURN_IF_ERROR(std::move(last).Get().status());
    ABSL_RETURN_IF_ERROR(client_.Finish());
    return run;
  }

 private:
  uint32_t PriorityOf(size_t layer) const { return variant_.prioritised ? static_cast<uint32_t>(layer) : 0; }
  Future<std::vector<float>> Pull(size_t layer, Future<void> after) {
    return tables_[layer].PullRangeAsync(0, net_.layers[layer].rows,
                                         {.priority = PriorityOf(layer), .after = std::move(after)});
  }

  // Every value is to become 1.
  absl::StatusOr<double> Iterate() {
    std::vector<std::vector<float>> gradients;
    double loss = 0;
    for (size_t l = 0; l < net_.layers.size(); ++l) {
      ABSL_ASSIGN_OR_RETURN(std::vector<float> values, std::move(coming_[l]).Get());
      for (float& value : values) {
        value -= 1;
        loss += static_cast<double>(value) * value;
      }
      gradients.push_back(std::move(values));
      absl::SleepFor(net_.layers[l].forward);
    }
    for (size_t l = net_.layers.size(); l-- > 0;) {
      absl::SleepFor(net_.layers[l].backward);
      Future<void> pushed = tables_[l].PushRangeAsync(0, gradients[l], {.priority = PriorityOf(l)});
      coming_[l] = Pull(l, variant_.whole ? pushed : Future<void>());
    }
    ABSL_RETURN_IF_ERROR(client_.Tick());
    return loss;
  }

  const Net& net_;
  const Variant& variant_;
  Client& client_;
  std::vector<Table> tables_;
  std::vector<Future<std::vector<float>>> coming_;  // of each layer
};

absl::StatusOr<Run> Train(const std::string& coordinator, const Net& net, const Variant& variant) {
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<Client> client,
      Client::Connect({.coordinator = coordinator,
                       .job = absl::StrCat("bench-p3-", absl::ToUnixNanos(world::WallClock())),
                       .client_name = "paceline-bench",
                       .workers = 1,
                       .cache_bytes_max = 0,
                       .slice_bytes = variant.slice_bytes}));
  return Training(net, variant, *client).Go();
}

// Of each variant, in turn: the machine's mood changes. The losses of the first one, and what others differ
// from them by at most.
struct Measured {
  std::vector<double> seconds;  // medians, by variant
  std::vector<double> losses;
  double difference = 0;  // relative
};

absl::StatusOr<Measured> MeasureAll(const std::string& coordinator, const Net& net,
                                    const std::vector<Variant>& variants, int rounds) {
  Measured measured;
  std::vector<std::vector<double>> seconds(variants.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t v = 0; v < variants.size(); ++v) {
      ABSL_ASSIGN_OR_RETURN(const Run run, Train(coordinator, net, variants[v]));
      seconds[v].push_back(run.seconds);
      if (measured.losses.empty()) measured.losses = run.losses;
      for (size_t i = 0; i < run.losses.size(); ++i) {
        const double other = std::abs(run.losses[i] - measured.losses[i]) / measured.losses[i];
        measured.difference = std::max(measured.difference, other);
      }
    }
  }
  for (const std::vector<double>& all : seconds) measured.seconds.push_back(Median(all));
  return measured;
}

// The workload's results, of which some may be skipped.
class Report {
 public:
  explicit Report(const Net& net) : net_(net) {}

  Result& Add(const std::string& variant, uint64_t slice_bytes, const std::string& metric, double value,
              const std::string& limit_name, double limit) {
    results.push_back({.workload = "p3",
                       .params = {{"variant", variant},
                                  {"slice_bytes", slice_bytes},
                                  {"layers", net_.layers.size()},
                                  {"link MB/s", net_.bytes_per_second / 1e6},
                                  {"computation ms", absl::ToDoubleMilliseconds(net_.Computation())},
                                  {"each direction ms", absl::ToDoubleMilliseconds(net_.Communication())}},
                       .metric = metric,
                       .value = value,
                       .limit_name = limit_name,
                       .limit = limit,
                       .lower_is_better = true});
    return results.back();
  }

  std::vector<Result> results;

 private:
  const Net& net_;
};

constexpr char kWhole[] = "whole layers, in the order of the pushes";

absl::Status MeasureIn(const std::string& coordinator, const Setting& setting, const Net& net,
                       Report& report) {
  ABSL_ASSIGN_OR_RETURN(
      const Measured turns,
      MeasureAll(coordinator, net,
                 {{.whole = true}, {.slice_bytes = kSlice}, {.prioritised = true, .slice_bytes = kSlice}},
                 setting.smallest ? 1
                 : setting.quick  ? 2
                                  : 5));
  if (turns.difference > 1e-5) {
    return absl::InternalError(
        absl::StrCat("p3: losses differ by ", turns.difference, " between variants that compute the same"));
  }
  report
      .Add("slices and priorities", kSlice, "iteration ms", turns.seconds[2] * 1e3, kWhole,
           turns.seconds[0] * 1e3)
      .goal = 0.8;  // a fourth more iterations a second
  report.Add("slices in the order of the pushes", kSlice, "iteration ms", turns.seconds[1] * 1e3, kWhole,
             turns.seconds[0] * 1e3);
  report.Add("slices and priorities", kSlice, "iteration ms", turns.seconds[2] * 1e3, "computation alone",
             absl::ToDoubleMilliseconds(net.Computation()));
  report.Add("all", kSlice, "last loss", turns.losses.back(), "first loss", turns.losses.front());

  std::vector<Variant> sweep;
  for (const uint64_t bytes : {uint64_t{4} << 10, uint64_t{16} << 10, uint64_t{64} << 10, uint64_t{128} << 10,
                               uint64_t{256} << 10, kSliceMax}) {
    sweep.push_back({.prioritised = true, .slice_bytes = bytes});
  }
  ABSL_ASSIGN_OR_RETURN(const Measured sizes,
                        MeasureAll(coordinator, net, sweep, setting.smallest || setting.quick ? 1 : 3));
  const double best = *std::min_element(sizes.seconds.begin(), sizes.seconds.end());
  for (size_t i = 0; i < sweep.size(); ++i) {
    report.Add("sweep", sweep[i].slice_bytes, "iteration ms", sizes.seconds[i] * 1e3, "the best size",
               best * 1e3);
  }
  const double inside = *std::min_element(sizes.seconds.begin() + 1, sizes.seconds.end() - 1);
  report
      .Add("sweep, sizes between", 0, "best iteration ms", inside * 1e3, "the smallest and the largest size",
           std::min(sizes.seconds.front(), sizes.seconds.back()) * 1e3)
      .goal = 1.0;
  return absl::OkStatus();
}

std::vector<Result> Skipped(Report report, const absl::Status& why) {
  report.Add("slices and priorities", kSlice, "iteration ms", 0, kWhole, 0).skipped =
      std::string(why.message());
  Say(absl::StrCat("p3: skipped: ", why.message()));
  return report.results;
}

}  // namespace
}  // namespace p3

absl::StatusOr<std::vector<Result>> Priorities(const Setting& setting) {
  const p3::Net net = p3::Net::Of(setting);
  p3::Report report(net);
  const absl::StatusOr<LimitedLink> link = EnterLimitedLink(net.bytes_per_second);
  if (!link.ok()) return p3::Skipped(report, link.status());
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  const std::string listen = absl::StrCat(link->far, ":0");
  tool::LocalCluster cluster(*supervisor, *folder,
                             {.programs = tool::FolderOfPrograms(),
                              .shards = 1,
                              .host = link->near,
                              .shard_command = link->command,
                              .shard_arguments = {"--listen", listen, "--peer-listen", listen}});
  absl::Status done = cluster.Start();
  if (done.ok()) done = p3::MeasureIn(cluster.address(), setting, net, report);
  cluster.Stop();
  if (!done.ok()) return done;
  return report.results;
}

}  // namespace paceline::bench
