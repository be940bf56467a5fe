#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace paceline::tool {

// `paceline pull` and `paceline push`: a few rows of a table, for looking and for trying.
struct RowsOptions {
  std::string coordinator;
  bool json = false;
  double timeout_s = 10;
  std::string job;
  std::string table;
  std::vector<uint64_t> keys;
  uint64_t key = 0;
  std::vector<float> values;
};

// A row as it is shown.
struct Row {
  uint64_t key = 0;
  std::vector<float> values;
};
// In columns; and as a JSON list of {"key", "values"}, in which what is no number is null.
std::string RowsText(const std::vector<Row>& rows);
std::string RowsJson(const std::vector<Row>& rows);

// Each adds its command to the program's. `options` must outlive the parsing.
CLI::App* AddPull(CLI::App& app, RowsOptions& options);
CLI::App* AddPush(CLI::App& app, RowsOptions& options);
int PullRows(const RowsOptions& options);
int PushRow(const RowsOptions& options);

}  // namespace paceline::tool
