#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "paceline/client.h"

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

// A table with the client whose it is.
struct OpenedTable {
  std::unique_ptr<Client> client;
  Table table;
};
// Opens options.table of options.job, if both exist, with a client without a clock: no worker ever waits for
// it, and it reads the newest values. NOT_FOUND says what does not exist, and which command shows what does.
absl::StatusOr<OpenedTable> OpenNamedTable(const RowsOptions& options);
// Adds what commands on tables have in common: JOB, TABLE, --timeout, --coordinator; and --json, which is
// `as_json`.
void AddTableOptions(CLI::App& command, RowsOptions& options, const std::string& as_json);

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
