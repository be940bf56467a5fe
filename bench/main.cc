// paceline-bench: what a cluster does, each figure beside the machine's own limit measured in the same run.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/workloads.h"
#include "libs/base/version.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Measures a cluster through the SDK. Start one with: paceline up --shards 1 -- paceline-bench dense"};
  app.set_version_flag("--version", std::string(paceline::kVersion));
  std::string coordinator;
  std::string json;
  app.add_option("--coordinator", coordinator, "host:port of the coordinator")
      ->envname("PACELINE_COORDINATOR")
      ->required();
  app.add_option("--json", json, "write the list of results to this file");
  CLI::App* dense = app.add_subcommand("dense", "64 MB of a ranged table, pushed and pulled whole");
  CLI::App* sparse = app.add_subcommand("sparse", "batches of 1,000 rows of 16 values, of a million");
  CLI::App* latency = app.add_subcommand("latency", "one row, one request outstanding");
  app.require_subcommand(1);
  app.fallthrough();
  CLI11_PARSE(app, argc, argv);

  absl::StatusOr<std::vector<paceline::bench::Result>> results = absl::UnimplementedError("");
  if (dense->parsed()) results = paceline::bench::Dense(coordinator);
  if (sparse->parsed()) results = paceline::bench::Sparse(coordinator);
  if (latency->parsed()) results = paceline::bench::Latency(coordinator);
  if (!results.ok()) {
    std::fprintf(stderr, "paceline-bench: %s\n", std::string(results.status().message()).c_str());
    return 1;
  }
  for (const paceline::bench::Result& result : *results) paceline::bench::Print(result);
  if (!json.empty() && !(std::ofstream(json) << paceline::bench::ToJson(*results).dump(2) << "\n")) {
    std::fprintf(stderr, "paceline-bench: cannot write %s\n", json.c_str());
    return 1;
  }
  return 0;
}
