#include "bench/filters.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/session.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench {
namespace {

constexpr uint64_t kRows = 1'000'000;
constexpr const char* kFilters[] = {"none",
                                    "keys",
                                    "delta",
                                    "lz4",
                                    "zstd",
                                    "f16",
                                    "bf16",
                                    "int8",
                                    "keys,lz4",
                                    "keys,delta,zstd",
                                    "keys,delta,lz4,int8"};
// Naming lists leaves at most so much of the bytes of rows of two values.
constexpr double kGoal = 0.55;

struct Batch {
  std::vector<uint64_t> keys;
  std::vector<float> values;
};

std::vector<Batch> MakeBatches(bool smallest, uint32_t dim) {
  world::SplitMix64 random(18);
  std::vector<Batch> batches(smallest ? 2 : 20);
  for (Batch& batch : batches) {
    for (int i = 0; i < (smallest ? 100 : 10'000); ++i) batch.keys.push_back(world::Uniform(random, kRows));
    std::ranges::sort(batch.keys);
    batch.keys.erase(std::ranges::unique(batch.keys).begin(), batch.keys.end());
    for (size_t i = 0; i < batch.keys.size() * dim; ++i) {
      batch.values.push_back((static_cast<float>(world::Uniform(random, 255)) - 127) / 8);
    }
  }
  return batches;
}

// A client with a table of its own, and what it cost in each round.
struct Contender {
  std::string filters;
  Session session = {};
  std::optional<Table> table = std::nullopt;
  // A value each round: of one key.
  std::vector<double> push_bytes = {}, push_cpu = {}, push_seconds = {};
  std::vector<double> pull_bytes = {}, pull_cpu = {}, pull_seconds = {};
};

absl::StatusOr<Contender> Join(const Setting& setting, const std::string& filters, uint32_t dim) {
  Contender contender{.filters = filters};
  ABSL_ASSIGN_OR_RETURN(contender.session, Session::Open(setting, "filters", 0));
  ABSL_ASSIGN_OR_RETURN(const LinkFilters parsed, ParseLinkFilters(filters == "none" ? "" : filters));
  ABSL_ASSIGN_OR_RETURN(
      Table table,
      contender.session.client->OpenOrCreate(
          "rows", paceline::Sparse{.dim = dim, .rule = Add{}, .consistency = Asp{}, .link_filters = parsed}));
  contender.table = table;
  return contender;
}

absl::Status PushAll(Contender& contender, const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) (void)contender.table->PushAsync(batch.keys, batch.values);
  return contender.session.client->Flush();
}

absl::Status PullAll(Contender& contender, const std::vector<Batch>& batches, std::vector<float>& out) {
  for (const Batch& batch : batches) {
    out.resize(batch.values.size());
    ABSL_RETURN_IF_ERROR(contender.table->Pull(batch.keys, absl::MakeSpan(out)));
  }
  return absl::OkStatus();
}

absl::Status RunRound(Contender& contender, const std::vector<Batch>& batches) {
  double keys = 0;
  for (const Batch& batch : batches) keys += static_cast<double>(batch.keys.size());
  std::vector<float> out;
  FirstError error;
  const Stats before = contender.session.client->stats();
  const Cost push = Measure(contender.session.cpu, [&] { error(PushAll(contender, batches)); });
  const Cost pull = Measure(contender.session.cpu, [&] { error(PullAll(contender, batches, out)); });
  const Stats after = contender.session.client->stats();
  ABSL_RETURN_IF_ERROR(error.status());
  contender.push_bytes.push_back(static_cast<double>(after.link_bytes_pushed - before.link_bytes_pushed) /
                                 keys);
  contender.pull_bytes.push_back(static_cast<double>(after.link_bytes_pulled - before.link_bytes_pulled) /
                                 keys);
  contender.push_cpu.push_back(push.cpu_seconds * 1e9 / keys);
  contender.pull_cpu.push_back(pull.cpu_seconds * 1e9 / keys);
  contender.push_seconds.push_back(push.seconds / keys);
  contender.pull_seconds.push_back(pull.seconds / keys);
  return absl::OkStatus();
}

void AddResults(const Contender& contender, const Contender& none, uint32_t dim, size_t batch,
                std::vector<Result>& results) {
  const nlohmann::json params{{"filters", contender.filters}, {"dim", dim}, {"batch", batch}};
  const auto add = [&](const char* metric, double value, double limit, bool lower,
                       std::optional<double> goal = {}) {
    results.push_back({.workload = "filters",
                       .params = params,
                       .metric = metric,
                       .value = value,
                       .limit_name = "no filters",
                       .limit = limit,
                       .lower_is_better = lower,
                       .goal = goal});
  };
  std::optional<double> goal;
  if (contender.filters == "keys" && dim == 2) goal = kGoal;
  add("push bytes/key", Median(contender.push_bytes), Median(none.push_bytes), true, goal);
  add("push CPU ns/key", Median(contender.push_cpu), Median(none.push_cpu), true);
  add("push keys/s", 1 / Median(contender.push_seconds), 1 / Median(none.push_seconds), false);
  add("pull bytes/key", Median(contender.pull_bytes), Median(none.pull_bytes), true, goal);
  add("pull CPU ns/key", Median(contender.pull_cpu), Median(none.pull_cpu), true);
  add("pull keys/s", 1 / Median(contender.pull_seconds), 1 / Median(none.pull_seconds), false);
}

absl::Status RunDim(const Setting& setting, uint32_t dim, std::vector<Result>& results) {
  const std::vector<Batch> batches = MakeBatches(setting.smallest, dim);
  std::vector<Contender> contenders;
  for (const char* filters : kFilters) {
    ABSL_ASSIGN_OR_RETURN(Contender contender, Join(setting, filters, dim));
    // Its rows are born, and its lists are known; that is not counted.
    std::vector<float> out;
    ABSL_RETURN_IF_ERROR(PushAll(contender, batches));
    ABSL_RETURN_IF_ERROR(PullAll(contender, batches, out));
    contenders.push_back(std::move(contender));
  }
  for (int round = 0; round < setting.Rounds(7); ++round) {  // in turns: the machine's mood changes
    for (Contender& contender : contenders) ABSL_RETURN_IF_ERROR(RunRound(contender, batches));
  }
  for (const Contender& contender : contenders) {
    AddResults(contender, contenders.front(), dim, batches.front().keys.size(), results);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Result>> Filters(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  tool::LocalCluster cluster(*supervisor, *folder, {.programs = tool::FolderOfPrograms(), .shards = 1});
  absl::Status done = cluster.Start();
  std::vector<Result> results;
  Setting own = setting;
  if (done.ok()) own.coordinator = cluster.address();
  for (const uint32_t dim : {2u, 16u}) {
    if (done.ok()) done = RunDim(own, dim, results);
  }
  cluster.Stop();
  if (!done.ok()) return done;
  return results;
}

void PrintFilters(const std::vector<Result>& results) {
  std::printf("%-22s %4s | %10s %6s %8s %9s | %10s %6s %8s %9s\n", "filters", "dim", "push B/key", "saved",
              "CPU ns", "keys/s", "pull B/key", "saved", "CPU ns", "keys/s");
  // Six figures for each contender, in the order in which they were added.
  for (size_t i = 0; i + 6 <= results.size(); i += 6) {
    const Result* const of = &results[i];
    std::printf("%-22s %4d | %10.2f %5.1f%% %8.0f %9.0f | %10.2f %5.1f%% %8.0f %9.0f%s\n",
                of->params.at("filters").get<std::string>().c_str(), of->params.at("dim").get<int>(),
                of[0].value, 100 * (1 - of[0].ratio()), of[1].value, of[2].value, of[3].value,
                100 * (1 - of[3].ratio()), of[4].value, of[5].value,
                !of->goal.has_value()              ? ""
                : of[0].passes() && of[3].passes() ? "  goal reached"
                                                   : "  goal missed: 45% of the bytes of pushes");
  }
}

}  // namespace paceline::bench
