// The table that `paceline-bench peers` prints.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/peers/peers.h"

namespace paceline::bench::peers {
namespace {

// One line of the table: one kind of requests of one of our tables.
struct Line {
  std::string work;
  const Result* rate = nullptr;                 // any of those of the rate
  std::map<std::string, const Result*> ratios;  // of the rate, by whom it is beside
  std::map<std::string, const Result*> p50, p99, cpu;
};

bool EndsWith(const std::string& metric, const char* end) {
  return metric.ends_with(end);
}

void Take(const Result& result, Line& line) {
  const std::string& metric = result.metric;
  const std::string& beside = result.limit_name;
  if (EndsWith(metric, "/s")) {
    line.rate = &result;
    line.ratios[beside] = &result;
  } else if (EndsWith(metric, "p50 us")) {
    line.p50[beside] = &result;
  } else if (EndsWith(metric, "p99 us")) {
    line.p99[beside] = &result;
  } else if (metric == "push CPU ns/key" || metric == "pull CPU ns/key" || metric == "push CPU-s/GB" ||
             metric == "pull CPU-s/GB") {
    line.cpu[beside] = &result;
  }
}

// The lines in the order of the results.
std::vector<Line> LinesOf(const std::vector<Result>& results) {
  std::vector<Line> lines;
  std::map<std::string, size_t> at;
  for (const Result& result : results) {
    if (!result.params.contains("batch")) continue;
    const nlohmann::json& p = result.params;
    const std::string op = result.metric.substr(0, 4);
    const std::string work =
        absl::StrFormat("%-17s %6d %2d  %-11s %s", p["data"].get<std::string>(), p["batch"].get<int>(),
                        p["outstanding"].get<int>(), p["table"].get<std::string>(), op);
    const auto [place, is_new] = at.try_emplace(work, lines.size());
    if (is_new) lines.emplace_back().work = work;
    Take(result, lines[place->second]);
  }
  return lines;
}

std::string Number(double value) {
  if (value >= 1e6) return absl::StrFormat("%.2fM", value / 1e6);
  if (value >= 1e4) return absl::StrFormat("%.0fk", value / 1e3);
  return absl::StrFormat("%.3g", value);
}

// Ours ÷ theirs, with a mark where the goal is missed.
std::string Ratio(const std::map<std::string, const Result*>& results, const std::string& beside) {
  const auto found = results.find(beside);
  if (found == results.end()) return "-";
  const Result& result = *found->second;
  if (!result.skipped.empty()) return "skipped";
  return absl::StrFormat("%.2f%s", result.ratio(), result.goal.has_value() && !result.passes() ? "!" : " ");
}

std::string Ours(const std::map<std::string, const Result*>& results) {
  return results.empty() ? "-" : Number(results.begin()->second->value);
}

std::vector<std::string> Names(const std::vector<Result>& results) {
  std::vector<std::string> names;
  for (const Result& result : results) {
    if (result.params.contains("batch") && std::ranges::find(names, result.limit_name) == names.end()) {
      names.push_back(result.limit_name);
    }
  }
  return names;
}

}  // namespace

void PrintPeers(const std::vector<Result>& results) {
  const std::vector<std::string> names = Names(results);
  constexpr char kBesideCpu[] = "ps-lite flat";
  std::printf(
      "Ours ÷ theirs, medians of rounds in turns; a rate above 1 is faster, CPU time below 1 is less; ! "
      "misses its "
      "goal.\n%-17s %6s %2s  %-11s %-4s %9s",
      "", "batch", "n", "table", "", "ours");
  for (const std::string& name : names) std::printf(" %18s", name.c_str());
  std::printf(" %9s %9s %9s %9s\n", "p50 us", "p99 us", "CPU", "÷ flat");
  for (const Line& line : LinesOf(results)) {
    std::printf("%s %9s", line.work.c_str(), line.rate == nullptr ? "-" : Number(line.rate->value).c_str());
    for (const std::string& name : names) {
      // A ping-pong has a time only.
      const bool has_rate = line.ratios.contains(name);
      std::printf(" %18s", Ratio(has_rate ? line.ratios : line.p50, name).c_str());
    }
    std::printf(" %9s %9s %9s %9s\n", Ours(line.p50).c_str(), Ours(line.p99).c_str(), Ours(line.cpu).c_str(),
                Ratio(line.cpu, kBesideCpu).c_str());
  }
  std::set<std::string> skipped;
  size_t goals = 0;
  size_t reached = 0;
  for (const Result& result : results) {
    if (!result.skipped.empty()) skipped.insert(absl::StrCat(result.limit_name, ": ", result.skipped));
    if (result.goal.has_value()) ++goals;
    if (result.passes()) ++reached;
    if (result.params.contains("batch")) continue;
    if (result.skipped.empty()) Print(result);
  }
  for (const std::string& why : skipped) std::printf("skipped: %s\n", why.c_str());
  std::printf("%zu of %zu goals reached\n", reached, goals);
}

}  // namespace paceline::bench::peers
