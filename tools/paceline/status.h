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

// Asks the coordinator for the cluster's status and prints it. Returns the exit code: 1 if there is no
// answer, or if the status is to be checked and has a problem.
int PrintStatus(const StatusOptions& options);

}  // namespace paceline::tool
