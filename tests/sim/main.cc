// paceline-sim: runs whole clusters in virtual time, a batch of seeds or one of them again.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/sim/batch.h"

namespace paceline::sim {
namespace {

struct Options {
  std::string seeds = "1..300";
  std::string plant;
  std::string json;
  uint64_t replay = 0;
  bool trace = false;
  bool keep_going = false;
  bool disks = false;
  bool violations_only = false;
};

bool ParseSeeds(const std::string& text, uint64_t* first, uint64_t* last) {
  const std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  return absl::SimpleAtoi(ends.first, first) &&
         absl::SimpleAtoi(ends.second.empty() ? ends.first : ends.second, last) && *first <= *last;
}

bool ParseBug(const std::string& name, Bug* bug) {
  if (name.empty()) return true;
  for (const NamedBug& known : kBugs) {
    if (known.name == name) return *bug = known.bug, true;
  }
  std::fprintf(stderr, "paceline-sim: --plant %s: unknown; known are:\n", name.c_str());
  for (const NamedBug& known : kBugs) std::fprintf(stderr, "  %s\n", std::string(known.name).c_str());
  return false;
}

void Print(uint64_t seed, const std::vector<Violation>& violations, const std::string& plant) {
  for (const Violation& violation : violations) {
    std::printf("seed %" PRIu64 ", step %" PRIu64 ": %s: %s\n", seed, violation.step,
                violation.invariant.c_str(), violation.what.c_str());
  }
  std::printf("again: paceline-sim --replay %" PRIu64 "%s%s --trace\n", seed,
              plant.empty() ? "" : absl::StrCat(" --plant ", plant).c_str(), calm_wanted ? " --calm" : "");
}

int Replay(const Options& options, Bug bug) {
  const auto trace = [](const std::string& what) { std::puts(what.c_str()); };
  const Outcome outcome = options.trace ? RunSeed(options.replay, bug, trace) : RunSeed(options.replay, bug);
  std::printf("seed %" PRIu64 ": hash %016" PRIx64 ", %" PRIu64 " steps, %" PRIu64 " parts, %" PRIu64
              " acknowledged, min clock %" PRIu64 ", %s of virtual time\n",
              options.replay, outcome.hash, outcome.steps, outcome.parts, outcome.parts_acked, outcome.clocks,
              absl::FormatDuration(outcome.took).c_str());
  for (const auto& [kind, times] : outcome.faults)
    std::printf("  fault %s: %" PRIu64 "\n", kind.c_str(), times);
  for (const auto& [mark, times] : outcome.marks.counts()) {
    std::printf("  mark %s: %" PRIu64 "\n", mark.c_str(), times);
  }
  if (!outcome.violations.empty()) Print(options.replay, outcome.violations, options.plant);
  return outcome.violations.empty() ? 0 : 1;
}

void WriteJson(const Options& options, const BatchOutcome& batch) {
  nlohmann::json violations = nlohmann::json::array();
  for (const FailedSeed& failed : batch.failed) {
    for (const Violation& violation : failed.violations) {
      violations.push_back({{"seed", failed.seed},
                            {"step", violation.step},
                            {"invariant", violation.invariant},
                            {"what", violation.what}});
    }
  }
  nlohmann::json json = {{"seeds", batch.seeds},
                         {"full_seeds", batch.full_seeds},
                         {"parts", batch.parts},
                         {"steps", batch.steps},
                         {"violations", violations},
                         {"marks_missed", batch.MarksMissed()},
                         {"faults_missed", batch.FaultsMissed()},
                         {"faults_by_kind", batch.faults_by_kind}};
  std::ofstream(options.json) << json.dump(2) << "\n";
}

int Batch(const Options& options, uint64_t first, uint64_t last, Bug bug) {
  const BatchOutcome batch = RunBatch(
      first, last, bug,
      [&](uint64_t seed, const Outcome& outcome) {
        if (!outcome.violations.empty()) Print(seed, outcome.violations, options.plant);
        return outcome.violations.empty() || options.keep_going;
      },
      options.disks);
  std::printf("%" PRIu64 " seeds, %zu with violations, %" PRIu64 " parts, %" PRIu64
              " steps, %s of virtual time\n",
              batch.seeds, batch.failed.size(), batch.parts, batch.steps,
              absl::FormatDuration(batch.virtual_time).c_str());
  for (const auto& [kind, times] : batch.faults_by_kind)
    std::printf("  fault %s: %" PRIu64 "\n", kind.c_str(), times);
  bool missed = false;
  for (const std::string& mark : batch.MarksMissed()) {
    missed = true;
    std::printf("never reached: %s\n", mark.c_str());
  }
  for (const std::string& kind : batch.FaultsMissed()) {
    missed = true;
    std::printf("never took effect: fault %s\n", kind.c_str());
  }
  if (!options.json.empty()) WriteJson(options, batch);
  return batch.failed.empty() && (!missed || options.violations_only) ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app{"Runs clusters of the real core in virtual time and checks the protocol's invariants."};
  app.add_option("--seeds", options.seeds, "A..B, both included")
      ->capture_default_str()
      ->envname("PACELINE_SIM_SEEDS");
  app.add_option("--replay", options.replay, "Runs this one seed");
  app.add_option("--plant", options.plant, "Plants this bug; see docs/simulation.md");
  app.add_option("--json", options.json, "Writes the outcome of a batch to this file");
  app.add_flag("--trace", options.trace, "With --replay: prints what happens");
  app.add_flag("--disks", options.disks, "Runs only those of the seeds that have disks");
  app.add_flag("--violations-only", options.violations_only,
               "Does not fail for marks and faults that the batch is too small to reach");
  app.add_flag("--keep-going", options.keep_going, "Does not stop at the first seed that fails");
  app.add_flag("--calm", calm_wanted,
               "Also judges what happens long after the last fault, and adds a calm end to each seed");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  uint64_t first = 0;
  uint64_t last = 0;
  Bug bug = Bug::kNone;
  if (!ParseBug(options.plant, &bug)) return 2;
  if (options.replay != 0) return Replay(options, bug);
  if (!ParseSeeds(options.seeds, &first, &last)) {
    std::fprintf(stderr, "paceline-sim: --seeds %s: expected A..B with A <= B\n", options.seeds.c_str());
    return 2;
  }
  return Batch(options, first, last, bug);
}

}  // namespace
}  // namespace paceline::sim

int main(int argc, char** argv) {
  return paceline::sim::Main(argc, argv);
}
