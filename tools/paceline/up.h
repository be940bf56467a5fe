#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace paceline::tool {

struct UpOptions {
  int shards = 1;
  int replicas = 0;
  std::string data_dir;
  int port = -1;  // -1: not given
  uint64_t memory_budget_bytes = 0;
  bool durable = false;
  bool balance_load = false;
  std::string snapshot_dir;
  std::string socket_dir;
  bool shared_memory = true;
  bool verbose = false;
  bool drill = false;
  bool restart = true;
  std::vector<std::string> command;  // what follows `--`
};

// Adds `paceline up` to the program's commands. `options` must outlive the parsing.
CLI::App* AddUp(CLI::App& app, UpOptions& options);

// Runs a cluster on this machine until told to stop, or until the command ends. The exit code.
int Up(const UpOptions& options);

}  // namespace paceline::tool
