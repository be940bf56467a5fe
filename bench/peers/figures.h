#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/peers/paceline_system.h"
#include "bench/peers/system.h"
#include "bench/result.h"

namespace paceline::bench::peers {

// One system at one kind of work: a figure each round.
struct Figures {
  std::vector<double> rates;                   // keys, or bytes of a dense tensor, a second
  std::vector<double> medians_us;              // of the requests of a round
  std::vector<double> client_cpu, server_cpu;  // seconds a key or byte
  std::vector<float> us;                       // of all requests

  void Add(const Turn& turn, const Data& data, const Work& work);
};

// What is measured of which system, beside ours.
struct Beside {
  std::string name;
  std::string skipped;               // why it is not there; empty: it is
  const Figures* figures = nullptr;  // null: skipped
};

// The results of one kind of work, ours beside another system.
std::vector<Result> Compare(const Data& data, const Work& work, Op op, Kind kind, const Figures& ours,
                            const Beside& beside);

// Bytes of resident memory a row, ours beside another system.
Result CompareMemory(const Data& data, Kind kind, double ours, const Beside& beside, double theirs);

// What this project wants to reach: `ratio` of `metric` beside the system of that name. nullopt: nothing is
// promised.
enum class Metric { kRate, kMedian, kP99, kCpu, kClientCpu, kServerCpu };
std::optional<double> GoalOf(Metric metric, const Work& work, Op op, Kind kind, const std::string& beside);

}  // namespace paceline::bench::peers
