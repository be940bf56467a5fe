#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::tool {

struct TopOptions {
  std::string coordinator;
  bool once = false;
  bool json = false;
  double interval_s = 2;
};

// Adds `paceline top` to the program's commands. `options` must outlive the parsing.
CLI::App* AddTop(CLI::App& app, TopOptions& options);

// Shows the load of the cluster, again and again until the process ends. With `once` it returns the exit
// code: 1 if there is no answer.
int Top(const TopOptions& options);

// What it shows: shards, those of which clients ask most first, each with its hottest segments and keys.
std::string TopText(const v1::StatusReply& status);
// The part of the status that has to do with load.
v1::StatusReply LoadOf(const v1::StatusReply& status);

}  // namespace paceline::tool
