#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace paceline::tool {

// `paceline snapshot …`.
struct SnapshotOptions {
  std::string coordinator;
  double timeout_s = 600;
  bool json = false;
  std::string job;
  std::string snapshot;
  bool exact = false;
  bool now = false;
  bool replace = false;
  // -- schedule --
  std::string every;  // a duration, as users write it
  uint64_t every_clocks = 0;
  uint32_t keep = 0;
  bool off = false;
  std::string snapshot_dir;
  std::string out;
  std::string format;  // empty: by the suffix of `out`
  std::vector<std::string> tables;
  bool slots = false;
  bool force = false;
  // -- import --
  std::string in;
  std::string schema;  // a file; empty: none
  uint64_t clock = 0;
};

// Runs a parsed command and returns its exit code.
using SnapshotCommand = int (*)(const SnapshotOptions&);

// Adds the commands to the program's. `options` must outlive the parsing.
void AddSnapshot(CLI::App& app, SnapshotOptions& options);
// The parsed command; nullptr: none.
SnapshotCommand ParsedSnapshot(const CLI::App& app);

}  // namespace paceline::tool
