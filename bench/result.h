#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paceline::bench {

// One measured figure beside what the machine does without Paceline, both taken in the same run: machines
// differ and are noisy, ratios less so.
struct Result {
  std::string workload;
  nlohmann::json params;
  std::string metric;  // with its unit, as "push GB/s"
  double value = 0;
  std::string limit_name;
  double limit = 0;
  bool lower_is_better = false;
  // Why the limit was not measured; empty: it was.
  std::string skipped = {};
  // What `ratio` must reach, or stay below where lower is better.
  std::optional<double> goal = {};

  // value / limit.
  double ratio() const { return limit == 0 ? 0 : value / limit; }
  // Whether the goal is reached; never of what was skipped.
  bool passes() const;
};

// A list of {workload, params, metric, value, limit_name, limit, ratio, better}. Without a measured limit
// that and the ratio are null, and the params have `skipped`, the reason; with a goal they have `goal` and
// `passes`.
nlohmann::json ToJson(const std::vector<Result>& results);
void Print(const Result& result);
// How far a long measurement is: a line on standard error.
void Say(const std::string& what);
// True: whoever has a goal reaches it.
bool AllPass(const std::vector<Result>& results);

// The cost of a piece of work: the time that passed, and the CPU time of this process and its shards.
struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

// CPU seconds spent so far by all processes that take part in the work.
using CpuMeter = std::function<double()>;
double OwnCpuSeconds();

// Runs `work` once.
Cost Measure(const CpuMeter& cpu, const std::function<void()>& work);

// The median of `rounds` runs, after one that is not counted; of time and CPU time each for itself.
Cost MedianCost(int rounds, const CpuMeter& cpu, const std::function<void()>& work);
Cost Median(const std::vector<Cost>& costs);
double Median(std::vector<double> values);

}  // namespace paceline::bench
