#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "paceline/v1/coordinator.pb.h"

// `paceline explain`: where the time of a job's workers goes, and who or what costs it. docs/explain.md has
// the rules.
namespace paceline::tool {

struct ExplainOptions {
  std::string coordinator;
  std::string job;
  bool json = false;
  double for_s = 0;  // 0: since the workers connected
};

// A cause of waits that has a name.
struct Finding {
  enum class Kind { kSlowWorker, kSlowLink, kOverloadedShard, kHotKey, kTightBound, kNetwork };
  Kind kind = Kind::kSlowWorker;
  std::string who;   // "worker 2", "shard-1", "worker 2 to shard-1", "table weights"
  double share = 0;  // of the time of all workers
  std::string text;  // what was seen, and what to do
};

struct WorkerSplit {
  v1::SessionStatus session;
  v1::WorkerTime time;
};

struct Explanation {
  std::string job;
  std::vector<WorkerSplit> workers;  // by rank
  v1::WorkerTime total;              // their sums, without the lists
  std::vector<Finding> findings;     // those that cost most first

  struct Named {
    std::string name;
    double share = 0;  // of the time of all workers
  };
  // The bound in force of a table that is read by one that follows the waiting.
  struct Bound {
    std::string table;
    uint32_t clocks = 0;
    uint32_t most = 0;
  };
  std::vector<Bound> bounds;
  std::optional<Named> straggler;  // whom others wait for most
  std::optional<Named> hot_shard;  // where they wait most, for other work or their own
};

// Of the job as `now` has it; with `before`, of the time since that status. NOT_FOUND: there is no such job;
// or none of its workers has told its time yet.
absl::StatusOr<Explanation> Explain(const std::string& job, const v1::StatusReply& now,
                                    const v1::StatusReply* before);

// "slow_worker", as --json has it.
std::string KindName(Finding::Kind kind);
std::string ExplanationText(const Explanation& explanation);
std::string ExplanationJson(const Explanation& explanation);

// Adds `paceline explain` to the program's commands. `options` must outlive the parsing.
CLI::App* AddExplain(CLI::App& app, ExplainOptions& options);
int PrintExplanation(const ExplainOptions& options);

}  // namespace paceline::tool
