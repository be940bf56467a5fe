#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace paceline::tool {

// Commands on jobs, tables and shards: `paceline job …`, `paceline table …`, `paceline shard …`, `paceline
// drain`, `paceline handover`, `paceline recover`.
struct AdminOptions {
  std::string coordinator;
  double timeout_s = 60;
  bool json = false;
  std::string job;
  std::string table;
  std::string shard;
  std::vector<std::string> shards;
  bool cancel = false;
  bool wait = false;
  bool if_unwanted = false;
  bool force = false;
  bool accept_loss = false;
  std::vector<std::string> given_up;  // shards
  std::vector<std::string> rates;     // NAME=VALUE
  bool now = false;
  std::optional<uint64_t> at_clock;
};

// Runs a parsed command and returns its exit code.
using Command = int (*)(const AdminOptions&);

// Adds the commands to the program's. `options` must outlive the parsing.
void AddAdmin(CLI::App& app, AdminOptions& options);
// The parsed command; nullptr: none.
Command ParsedAdmin(const CLI::App& app);

}  // namespace paceline::tool
