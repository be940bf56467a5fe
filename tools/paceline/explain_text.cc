// An explanation for people and for programs, and the command that prints it.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tools/paceline/columns.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/explain.h"
#include "tools/paceline/say.h"
#include "tools/paceline/worker_times.h"

namespace paceline::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::Duration kTimeout = absl::Seconds(5);

double SecondsOf(uint64_t us) {
  return static_cast<double>(us) / 1e6;
}

std::string PercentOf(uint64_t part, uint64_t of) {
  return of == 0 ? "-" : absl::StrFormat("%.1f", 100 * static_cast<double>(part) / static_cast<double>(of));
}

void AddRow(Columns& columns, const std::string& who, const std::string& clock, const v1::WorkerTime& time) {
  std::vector<std::string> cells = {who, clock, absl::StrFormat("%.1f", SecondsOf(time.all_us())),
                                    PercentOf(time.compute_us(), time.all_us())};
  for (const auto& [name, us] : CausesOf(time.blocked())) cells.push_back(PercentOf(us, time.all_us()));
  columns.Add(std::move(cells));
}

Json JsonOf(const v1::WaitCauses& causes) {
  Json json;
  for (const auto& [name, us] : CausesOf(causes)) json[name] = SecondsOf(us);
  return json;
}

Json JsonOf(const v1::WorkerTime& time) {
  return {{"seconds", SecondsOf(time.all_us())},
          {"compute", SecondsOf(time.compute_us())},
          {"blocked", JsonOf(time.blocked())},
          {"overlapped", JsonOf(time.overlapped())}};
}

// For which workers and at which shards a worker waited, the longest waits first.
void AddWhom(Json& json, const v1::WorkerTime& time) {
  json["for_workers"] = Json::array();
  for (const auto& whom : time.for_workers()) {
    json["for_workers"].push_back({{"rank", whom.rank()}, {"staleness", SecondsOf(whom.staleness_us())}});
  }
  json["at_shards"] = Json::array();
  for (const auto& shard : time.at_shards()) {
    json["at_shards"].push_back({{"shard", shard.shard()},
                                 {"network", SecondsOf(shard.network_us())},
                                 {"queue", SecondsOf(shard.queue_us())},
                                 {"apply", SecondsOf(shard.apply_us())},
                                 {"back_pressure", SecondsOf(shard.back_pressure_us())}});
  }
}

Json JsonOf(const std::optional<Explanation::Named>& named) {
  if (!named.has_value()) return nullptr;
  return {{"name", named->name}, {"share", named->share}};
}

}  // namespace

std::string ExplanationText(const Explanation& explanation) {
  Columns columns({"WORKER", ">CLOCK", ">SECONDS", ">COMPUTE %", ">STALENESS", ">NETWORK", ">QUEUE", ">APPLY",
                   ">REPLICATION", ">BACK PRESSURE", ">ROUTE", ">WORK", ">COORDINATOR", ">VALUE BOUND"});
  for (const WorkerSplit& worker : explanation.workers) {
    AddRow(columns, absl::StrCat(worker.session.rank()), absl::StrCat(worker.session.clock()), worker.time);
  }
  AddRow(columns, "all", "", explanation.total);
  uint64_t overlapped = 0;
  for (const auto& [name, us] : CausesOf(explanation.total.overlapped())) overlapped += us;
  std::string text = absl::StrCat("Where the time of job ", explanation.job, " goes\n", columns.Text());
  absl::StrAppendFormat(&text, "Operations waited %.1f s more while no thread waited for them.\n",
                        SecondsOf(overlapped));
  for (const Explanation::Bound& bound : explanation.bounds) {
    absl::StrAppendFormat(&text, "Bound of table %s: %d, at most %d; it follows the waiting\n", bound.table,
                          bound.clocks, bound.most);
  }
  if (explanation.straggler.has_value()) {
    absl::StrAppendFormat(&text, "Straggler: %s\n", explanation.straggler->name);
  }
  if (explanation.hot_shard.has_value()) {
    absl::StrAppendFormat(&text, "Hottest shard: %s\n", explanation.hot_shard->name);
  }
  if (explanation.findings.empty()) return absl::StrCat(text, "\nNothing costs 5 % of their time.\n");
  absl::StrAppend(&text, "\nCauses\n");
  for (const Finding& finding : explanation.findings) {
    absl::StrAppend(&text, "  - ", KindName(finding.kind), ", ", finding.who, ": ", finding.text, "\n");
  }
  return text;
}

std::string ExplanationJson(const Explanation& explanation) {
  Json workers = Json::array();
  for (const WorkerSplit& worker : explanation.workers) {
    Json one = {{"rank", worker.session.rank()},
                {"session", worker.session.session()},
                {"client", worker.session.client()},
                {"clock", worker.session.clock()},
                {"threads", worker.time.threads()}};
    one.update(JsonOf(worker.time));
    AddWhom(one, worker.time);
    workers.push_back(std::move(one));
  }
  Json findings = Json::array();
  for (const Finding& finding : explanation.findings) {
    findings.push_back({{"kind", KindName(finding.kind)},
                        {"who", finding.who},
                        {"share", finding.share},
                        {"text", finding.text}});
  }
  Json bounds = Json::array();
  for (const Explanation::Bound& bound : explanation.bounds) {
    bounds.push_back({{"table", bound.table}, {"bound", bound.clocks}, {"most", bound.most}});
  }
  const Json json = {{"job", explanation.job},
                     {"total", JsonOf(explanation.total)},
                     {"workers", workers},
                     {"straggler", JsonOf(explanation.straggler)},
                     {"hot_shard", JsonOf(explanation.hot_shard)},
                     {"bounds", bounds},
                     {"findings", findings}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

CLI::App* AddExplain(CLI::App& app, ExplainOptions& options) {
  CLI::App* explain = app.add_subcommand(
      "explain",
      "Show where the time of a job's workers goes, and which worker, link, shard or bound costs it");
  explain->add_option("JOB", options.job, "Its name")->required();
  explain->add_option("--for", options.for_s, "Of the next so many seconds, not since the workers connected")
      ->type_name("SECONDS")
      ->check(CLI::Range(2.0, 3600.0));
  explain->add_flag("--json", options.json, "As JSON: docs/explain.md has its fields");
  AddCoordinatorOption(*explain, options.coordinator);
  explain->footer("Workers tell their times once a second, while they train.");
  return explain;
}

int PrintExplanation(const ExplainOptions& options) {
  Coordinator coordinator(options.coordinator);
  absl::StatusOr<v1::StatusReply> before = absl::UnknownError("not asked");
  if (options.for_s > 0) {
    before = coordinator.Status(kTimeout);
    if (!before.ok()) return Complain(before.status(), options.coordinator);
    absl::SleepFor(absl::Seconds(options.for_s));
  }
  const absl::StatusOr<v1::StatusReply> now = coordinator.Status(kTimeout);
  if (!now.ok()) return Complain(now.status(), options.coordinator);
  const absl::StatusOr<Explanation> explained = Explain(options.job, *now, before.ok() ? &*before : nullptr);
  if (!explained.ok()) return Complain(explained.status().message());
  return Print(options.json ? ExplanationJson(*explained) : ExplanationText(*explained));
}

}  // namespace paceline::tool
