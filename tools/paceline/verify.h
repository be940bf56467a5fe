#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "tools/verify/report.h"

namespace paceline::tool {

struct VerifyOptions {
  std::vector<std::string> files;
  std::string json;  // empty: none
};

// Adds `paceline verify` to the program's commands. `options` must outlive the parsing.
CLI::App* AddVerify(CLI::App& app, VerifyOptions& options);

// Checks the files and prints the findings. Returns the exit code: 0 if all is well; 1 if there is a
// violation, nothing was checked, or a file cannot be read.
int Verify(const VerifyOptions& options);

// The same without printing. An error if a file cannot be read.
absl::StatusOr<verify::Report> VerifyFiles(const std::vector<std::string>& files);

}  // namespace paceline::tool
