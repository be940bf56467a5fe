#include "tools/paceline/reduce.h"

#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tools/paceline/say.h"

namespace paceline::tool {
namespace {

using Json = nlohmann::ordered_json;

const std::map<std::string, Reduction>& Reductions() {
  static const std::map<std::string, Reduction> kReductions = {
      {"sum", Reduction::kSum},          {"l1", Reduction::kL1Norm},         {"l2", Reduction::kL2Norm},
      {"max-norm", Reduction::kMaxNorm}, {"max", Reduction::kMax},           {"min", Reduction::kMin},
      {"rows", Reduction::kRows},        {"non-zeros", Reduction::kNonZeros}};
  return kReductions;
}

constexpr char kTop[] = "top";
constexpr char kTopAbs[] = "top-abs";

bool IsTop(const ReduceCommand& command) {
  return command.op == kTop || command.op == kTopAbs;
}

Json Head(const ReduceCommand& command) {
  return {{"job", command.rows.job}, {"table", command.rows.table}, {"op", command.op}};
}

}  // namespace

absl::StatusOr<ReduceOptions> ParseKeyRange(const std::string& text) {
  ReduceOptions options;
  if (text.empty()) return options;
  const std::vector<std::string> ends = absl::StrSplit(text, ':');
  uint64_t last = 0;
  const bool two = ends.size() == 2;
  const bool from = two && (ends[0].empty() || absl::SimpleAtoi(ends[0], &options.first));
  const bool to = two && (ends[1].empty() || absl::SimpleAtoi(ends[1], &last));
  if (!from || !to || (!ends[1].empty() && last <= options.first)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--range: '", text, "'; expected A:B, the keys from A to B - 1, with A less than B"));
  }
  if (!ends[1].empty()) options.count = last - options.first;
  return options;
}

std::string ReducedText(const ReduceCommand& command, const Reduced& reduced) {
  return absl::StrFormat("%s: %.17g, of %d values in %d rows\n", command.op, reduced.value, reduced.values,
                         reduced.rows);
}

std::string ReducedJson(const ReduceCommand& command, const Reduced& reduced) {
  Json json = Head(command);
  json["value"] = reduced.value;
  json["rows"] = reduced.rows;
  json["values"] = reduced.values;
  return json.dump(1) + "\n";
}

std::string TopText(const std::vector<TopValue>& top) {
  std::string text = absl::StrFormat("  %20s  %6s  %s\n", "KEY", "COLUMN", "VALUE");
  for (const TopValue& value : top) {
    absl::StrAppendFormat(&text, "  %20d  %6d  %g\n", value.key, value.column, value.value);
  }
  return text;
}

std::string TopJson(const ReduceCommand& command, const std::vector<TopValue>& top) {
  Json json = Head(command);
  json["top"] = Json::array();
  for (const TopValue& value : top) {
    json["top"].push_back({{"key", value.key}, {"column", value.column}, {"value", value.value}});
  }
  return json.dump(1) + "\n";
}

CLI::App* AddReduce(CLI::App& app, ReduceCommand& command) {
  CLI::App* reduce =
      app.add_subcommand("reduce", "Show one answer from all rows of a table, as they are now");
  AddTableOptions(*reduce, command.rows,
                  "As JSON: job, table, op, and value, rows, values; or top, a list of key, column, value");
  std::vector<std::string> ops;
  for (const auto& [name, reduction] : Reductions()) ops.push_back(name);
  ops.insert(ops.end(), {kTop, kTopAbs});
  reduce->add_option("OP", command.op, "What becomes of the values")->required()->check(CLI::IsMember(ops));
  reduce->add_option("--range", command.range, "Keys A to B - 1 only (default: all rows)")->type_name("A:B");
  reduce->add_option("--column", command.column, "One of the values of each row only, from 0 (default: all)");
  reduce->add_option("-k,--k", command.k, "How many values top and top-abs show")->capture_default_str();
  reduce->footer(
      "l1 is the sum of absolute values, l2 the root of the sum of squares, max-norm the largest absolute "
      "value; top shows the largest values with their keys, top-abs those of largest absolute value. Of a "
      "sparse table the rows count that somebody has pushed to. The shards compute it; nothing changes.");
  return reduce;
}

int ReduceTable(const ReduceCommand& command) {
  absl::StatusOr<ReduceOptions> options = ParseKeyRange(command.range);
  if (!options.ok()) return Complain(options.status().message());
  options->column = command.column;
  absl::StatusOr<OpenedTable> opened = OpenNamedTable(command.rows);
  if (!opened.ok()) return Complain(opened.status().message());
  const bool json = command.rows.json;
  if (IsTop(command)) {
    const TopBy by = command.op == kTopAbs ? TopBy::kMagnitude : TopBy::kValue;
    const auto top = opened->table.TopK(command.k, by, *options);
    if (!top.ok()) return Complain(top.status().message());
    return Print(json ? TopJson(command, *top) : TopText(*top));
  }
  const auto reduced = opened->table.Reduce(Reductions().at(command.op), *options);
  if (!reduced.ok()) return Complain(reduced.status().message());
  return Print(json ? ReducedJson(command, *reduced) : ReducedText(command, *reduced));
}

}  // namespace paceline::tool
