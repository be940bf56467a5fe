#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paceline::bench {

// One measured figure beside what the machine can do at best, both taken in the same run: machines differ and
// are noisy, ratios less so.
struct Result {
  std::string workload;
  nlohmann::json params;
  std::string metric;  // with its unit, as "push GB/s"
  double value = 0;
  std::string limit_name;
  double limit = 0;
  bool lower_is_better = false;

  // value / limit, or limit / value where less is better: 1 is as good as the limit.
  double ratio() const {
    if (value == 0 || limit == 0) return 0;
    return lower_is_better ? limit / value : value / limit;
  }
};

nlohmann::json ToJson(const std::vector<Result>& results);
void Print(const Result& result);

// Seconds that `work` takes: the median of `rounds` runs, after one that is not counted.
double MedianSeconds(int rounds, const std::function<void()>& work);
double Median(std::vector<double> values);

}  // namespace paceline::bench
