#include "bench/result.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace paceline::bench {

nlohmann::json ToJson(const std::vector<Result>& results) {
  nlohmann::json out = nlohmann::json::array();
  for (const Result& r : results) {
    out.push_back({{"workload", r.workload},
                   {"params", r.params},
                   {"metric", r.metric},
                   {"value", r.value},
                   {"limit_name", r.limit_name},
                   {"limit", r.limit},
                   {"ratio", r.ratio()}});
  }
  return out;
}

void Print(const Result& r) {
  std::printf("%-8s %-28s %-16s %12.4g   of %12.4g (%s): %.2f\n", r.workload.c_str(), r.params.dump().c_str(),
              r.metric.c_str(), r.value, r.limit, r.limit_name.c_str(), r.ratio());
  std::fflush(stdout);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MedianSeconds(int rounds, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round > 0) seconds.push_back(took.count());
  }
  return Median(std::move(seconds));
}

}  // namespace paceline::bench
