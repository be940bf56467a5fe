#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace paceline::tool {

struct HealthOptions {
  std::string address;
  std::string service;
  bool json = false;
  double timeout_s = 2;
};

// Adds `paceline health` to the program's commands. `options` must outlive the parsing.
CLI::App* AddHealth(CLI::App& app, HealthOptions& options);

// Asks a server by grpc.health.v1. Returns the exit code: 0 if it serves; otherwise 1, with the reason on
// standard error, or in the JSON.
int Health(const HealthOptions& options);

}  // namespace paceline::tool
