#include "tools/paceline/rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/lists.h"
#include "tools/paceline/say.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kStatusTimeout = absl::Seconds(5);

absl::StatusOr<OpenedTable> Open(const RowsOptions& options, const v1::Table& named) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect({.coordinator = options.coordinator,
                       .job = options.job,
                       .client_name = "paceline command line",
                       .timeout = absl::Seconds(options.timeout_s),
                       .cache_bytes_max = 0});
  if (!client.ok()) return client.status();
  absl::StatusOr<Table> table = (*client)->Open(named.name(), Asp{});
  if (!table.ok()) return table.status();
  return OpenedTable{.client = *std::move(client), .table = *std::move(table)};
}

// Before a client connects, which would make the job.
absl::StatusOr<v1::Table> Find(const RowsOptions& options) {
  const absl::StatusOr<v1::StatusReply> status = Coordinator(options.coordinator).Status(kStatusTimeout);
  if (!status.ok()) return absl::Status(status.status().code(), WhyNot(status.status(), options.coordinator));
  if (const v1::Table* table = FindTable(*status, options.job, options.table)) return *table;
  if (FindJob(*status, options.job) == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("job '", options.job, "' does not exist; `paceline job list` shows those that do"));
  }
  return absl::NotFoundError(absl::StrCat("job '", options.job, "' has no table '", options.table,
                                          "'; `paceline table list ", options.job, "` shows those it has"));
}

std::vector<Row> RowsOf(const std::vector<uint64_t>& keys, const std::vector<float>& values) {
  const size_t dim = values.size() / keys.size();
  std::vector<Row> rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * dim);
    rows.push_back({.key = keys[i], .values = {begin, begin + static_cast<std::ptrdiff_t>(dim)}});
  }
  return rows;
}

int Show(const RowsOptions& options, const std::vector<uint64_t>& keys,
         const absl::StatusOr<std::vector<float>>& values) {
  if (!values.ok()) return Complain(values.status().message());
  const std::vector<Row> rows = RowsOf(keys, *values);
  return Print(options.json ? RowsJson(rows) : RowsText(rows));
}

constexpr char kRowsJson[] = "As JSON: a list of objects with key and values";

}  // namespace

absl::StatusOr<OpenedTable> OpenNamedTable(const RowsOptions& options) {
  const absl::StatusOr<v1::Table> named = Find(options);
  if (!named.ok()) return named.status();
  return Open(options, *named);
}

void AddTableOptions(CLI::App& command, RowsOptions& options, const std::string& as_json) {
  command.add_option("JOB", options.job, "The job's name")->required();
  command.add_option("TABLE", options.table, "The table's name")->required();
  command.add_flag("--json", options.json, as_json);
  command.add_option("--timeout", options.timeout_s, "How long to wait for the shards")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  AddCoordinatorOption(command, options.coordinator);
}

std::string RowsText(const std::vector<Row>& rows) {
  // As Columns have it, but without an end to the values.
  int width = 3;
  for (const Row& row : rows) width = std::max(width, static_cast<int>(absl::StrCat(row.key).size()));
  std::string text = absl::StrFormat("  %*s  VALUES\n", width, "KEY");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "  %*d  %s\n", width, row.key, absl::StrJoin(row.values, " "));
  }
  return text;
}

std::string RowsJson(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) list.push_back({{"key", row.key}, {"values", row.values}});
  return list.dump(1) + "\n";
}

CLI::App* AddPull(CLI::App& app, RowsOptions& options) {
  CLI::App* pull = app.add_subcommand("pull", "Show the values of a few rows, as they are now");
  AddTableOptions(*pull, options, kRowsJson);
  pull->add_option("KEY", options.keys, "Their keys")->required();
  pull->footer("A row that was never pushed to is shown with its initial values, and not made.");
  return pull;
}

CLI::App* AddPush(CLI::App& app, RowsOptions& options) {
  CLI::App* push = app.add_subcommand("push", "Push an update to a row, and show the row after it");
  AddTableOptions(*push, options, kRowsJson);
  push->add_option("KEY", options.key, "The row's key")->required();
  push->add_option("VALUE", options.values,
                   "The update, as the table's rule takes it: a gradient, a sum, a value")
      ->required();
  push->footer(
      "Changes the job's model. A table that is aggregated once per clock takes updates of workers only.");
  return push;
}

int PullRows(const RowsOptions& options) {
  absl::StatusOr<OpenedTable> opened = OpenNamedTable(options);
  if (!opened.ok()) return Complain(opened.status().message());
  return Show(options, options.keys, opened->table.Pull(options.keys));
}

int PushRow(const RowsOptions& options) {
  const absl::StatusOr<v1::Table> named = Find(options);
  if (!named.ok()) return Complain(named.status().message());
  if (options.values.size() != named->schema().dim()) {
    return Complain(absl::StrCat("VALUE: ", options.values.size(), " given; expected ", named->schema().dim(),
                                 ", the dim of table '", options.table, "'"));
  }
  absl::StatusOr<OpenedTable> opened = Open(options, *named);
  if (!opened.ok()) return Complain(opened.status().message());
  const std::vector<uint64_t> keys = {options.key};
  return Show(options, keys, opened->table.PushPull(keys, options.values));
}

}  // namespace paceline::tool
