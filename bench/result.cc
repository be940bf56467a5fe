#include "bench/result.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace paceline::bench {
namespace {

// Without lists and objects: these are for programs.
std::string ForPeople(const nlohmann::json& params) {
  nlohmann::json short_ones = nlohmann::json::object();
  for (const auto& [name, value] : params.items()) {
    if (!value.is_structured()) short_ones[name] = value;
  }
  return short_ones.dump();
}

}  // namespace

bool Result::passes() const {
  if (!goal.has_value() || !skipped.empty() || limit == 0) return false;
  return lower_is_better ? ratio() <= *goal : ratio() >= *goal;
}

nlohmann::json ToJson(const std::vector<Result>& results) {
  nlohmann::json out = nlohmann::json::array();
  for (const Result& r : results) {
    nlohmann::json params = r.params;
    if (!r.skipped.empty()) params["skipped"] = r.skipped;
    if (r.goal.has_value()) {
      params["goal"] = *r.goal;
      params["passes"] = r.passes();
    }
    const auto unless_skipped = [&](double number) {
      return r.skipped.empty() ? nlohmann::json(number) : nlohmann::json();
    };
    out.push_back({{"workload", r.workload},
                   {"params", std::move(params)},
                   {"metric", r.metric},
                   {"value", r.value},
                   {"limit_name", r.limit_name},
                   {"limit", unless_skipped(r.limit)},
                   {"ratio", unless_skipped(r.ratio())},
                   {"better", r.lower_is_better ? "lower" : "higher"}});
  }
  return out;
}

void Print(const Result& r) {
  std::printf("%-8s %-44s %-20s %10.4g   %6.2f x %10.4g (%s)\n", r.workload.c_str(),
              ForPeople(r.params).c_str(), r.metric.c_str(), r.value, r.ratio(), r.limit,
              r.limit_name.c_str());
  std::fflush(stdout);
}

void Say(const std::string& what) {
  std::fprintf(stderr, "paceline-bench: %s\n", what.c_str());
}

bool AllPass(const std::vector<Result>& results) {
  return std::ranges::all_of(results, [](const Result& r) { return !r.goal.has_value() || r.passes(); });
}

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Cost Measure(const CpuMeter& cpu, const std::function<void()>& work) {
  const double cpu_before = cpu();
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {.seconds = took.count(), .cpu_seconds = cpu() - cpu_before};
}

Cost MedianCost(int rounds, const CpuMeter& cpu, const std::function<void()>& work) {
  std::vector<Cost> costs;
  work();
  for (int round = 0; round < rounds; ++round) costs.push_back(Measure(cpu, work));
  return Median(costs);
}

Cost Median(const std::vector<Cost>& costs) {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  for (const Cost& cost : costs) {
    seconds.push_back(cost.seconds);
    cpu_seconds.push_back(cost.cpu_seconds);
  }
  return {.seconds = Median(std::move(seconds)), .cpu_seconds = Median(std::move(cpu_seconds))};
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace paceline::bench
