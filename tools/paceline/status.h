#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace paceline::tool {

struct StatusOptions {
  std::string coordinator;
  bool json = false;
  bool check = false;
};

// Adds `paceline status` to the program's commands. `options` must outlive the parsing.
CLI::App* AddStatus(CLI::App& app, StatusOptions& options);

// Asks the coordinator how the cluster is and prints that. The exit code: 1 if there is no answer, or
// something is wrong and it is to be checked.
int PrintStatus(const StatusOptions& options);

}  // namespace paceline::tool
