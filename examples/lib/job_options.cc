#include "examples/lib/job_options.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline::examples {

namespace {

constexpr uint64_t kAutoMax = 16;  // of ssp:auto

absl::StatusOr<Consistency> ParseBound(absl::string_view text) {
  Vap vap;
  absl::string_view v = text;
  vap.decay = absl::ConsumeSuffix(&v, "/sqrt");
  if (absl::SimpleAtod(v, &vap.v) && vap.v > 0 && std::isfinite(vap.v)) return vap;
  return absl::InvalidArgumentError(
      absl::StrCat("--model: vap: expected a number above 0, perhaps followed by /sqrt; found '", text, "'"));
}

// "S", or "S/BYTES".
std::optional<Essp> ParseEssp(absl::string_view text) {
  Essp essp;
  const size_t slash = text.find('/');
  if (!absl::SimpleAtoi(text.substr(0, slash), &essp.staleness)) return std::nullopt;
  if (slash == absl::string_view::npos) return essp;
  const bool budget = absl::SimpleAtoi(text.substr(slash + 1), &essp.budget_bytes) && essp.budget_bytes > 0;
  return budget ? std::optional(essp) : std::nullopt;
}

}  // namespace

absl::StatusOr<Consistency> ParseModel(absl::string_view text) {
  if (text == "asp") return Asp{};
  if (text == "bsp") return Bsp{};
  Ssp ssp;
  absl::string_view staleness = text;
  if (absl::ConsumePrefix(&staleness, "ssp:auto")) {
    ssp.staleness = kAutoMax;
    ssp.adaptive = true;
    const bool largest = absl::ConsumePrefix(&staleness, ":") && absl::SimpleAtoi(staleness, &ssp.staleness);
    if (largest ? ssp.staleness > 0 : staleness.empty() && !absl::EndsWith(text, ":")) {
      ssp.catch_up = ssp.staleness / 2;
      return ssp;
    }
  }
  staleness = text;
  if (absl::ConsumePrefix(&staleness, "essp:")) {
    if (const std::optional<Essp> essp = ParseEssp(staleness)) return *essp;
  }
  if (absl::ConsumePrefix(&staleness, "ssp:") && absl::SimpleAtoi(staleness, &ssp.staleness)) {
    ssp.catch_up = ssp.staleness / 2;
    return ssp;
  }
  // A clock is a task. It begins with a read, which waits until all tasks are over but the last T.
  staleness = text;
  if (absl::ConsumePrefix(&staleness, "delay:") && absl::SimpleAtoi(staleness, &ssp.staleness)) return ssp;
  if (absl::ConsumePrefix(&text, "vap:")) return ParseBound(text);
  return absl::InvalidArgumentError(
      absl::StrCat("--model: expected ssp:S, essp:S[/BYTES] or delay:T with whole numbers, ssp:auto or "
                   "ssp:auto:MAX, vap:V[/sqrt], "
                   "asp or bsp; found '",
                   text, "'"));
}

CLI::Validator Within(int low, int high) {
  return CLI::Range(low, high).description("");
}

CLI::Validator NotNegative() {
  return CLI::Validator(CLI::NonNegativeNumber).description("");
}

CLI::Validator Positive() {
  return CLI::Validator(CLI::PositiveNumber).description("");
}

CLI::Validator ExistingFile() {
  return CLI::Validator(CLI::ExistingFile).description("");
}

void AddJobOptions(CLI::App* app, absl::string_view a_clock, JobOptions* o) {
  app->add_option("--workers", o->workers, "Worker processes")->type_name("N")->check(Within(1, 1024));
  app->add_option(
         "--model", o->model,
         absl::StrCat(
             "Consistency: ssp:S, a worker reads all updates older than S clocks (a clock is ", a_clock,
             "); ssp:auto[:MAX], the same, and S follows how long the workers wait, up to MAX (16); essp:S, "
             "as ssp:S, and shards send it what has changed meanwhile (essp:S/BYTES: that much of each table "
             "at a time, what was moved most first); delay:T, a clock starts "
             "once all are over but the last T; vap:V, what a worker has pushed to a row and not all have "
             "seen sums up to V at most (vap:V/sqrt: to V over the root of its clocks); asp, a worker reads "
             "whatever is there; or bsp, it reads "
             "exactly the updates of all earlier clocks"))
      ->type_name("MODEL");
  app->add_option("--seed", o->seed, "Of everything that is drawn at random")->type_name("N");
  app->add_option("--json", o->json_out, "Write the results to this file, as JSON")->type_name("FILE");
  app->add_option(
         "--trace", o->trace_out,
         "Write what each worker did, and when, to this file: Chrome trace events, which Perfetto opens")
      ->type_name("FILE");
  AddClusterOptions(app, o);
  app->add_option("--record", o->record,
                  "Each worker writes its history to a new file of this name (or FILE.1, FILE.2 ... where it "
                  "exists), for `paceline verify`")
      ->type_name("FILE");
  app->add_option("--worker", o->worker)->group("");  // how the parent starts its workers: not for people
}

void AddWorkOptions(CLI::App* app, JobOptions* o) {
  app->add_option(
         "--work", o->work,
         "How workers share the examples: split, each has its own from the start, so the number of "
         "workers is fixed; or queue, they are handed out while the job trains: a worker that is "
         "killed does not end the run, others may join it with --join, and every example is trained, "
         "once but for what `paceline status` counts")
      ->type_name("HOW")
      ->check(CLI::IsMember({"split", "queue"}).description(""));
  app->add_flag(
      "--count-work", o->count_work,
      "With --work queue: count how often each example is trained, and fail at the end if one never "
      "was");
  app->add_flag(
      "--join", o->join,
      "Be one more worker of the job --job, which others have begun with --work queue, and start no "
      "others. Give it their command line, and --join");
}

void AddLinkFilterOption(CLI::App* app, JobOptions* o) {
  app->add_option(
         "--filters", o->filter_names,
         "Filters between workers and shards, separated by commas: keys, delta, lz4, zstd; f16, bf16 or "
         "int8, which round what is pulled; push: or pull: before a name for one direction "
         "(docs/filters.md)")
      ->type_name("NAMES");
}

void AddClusterOptions(CLI::App* app, JobOptions* o) {
  app->add_option("--coordinator", o->coordinator, "The cluster's coordinator")
      ->type_name("HOST:PORT")
      ->envname("PACELINE_COORDINATOR");
  app->add_option("--job", o->job, "Name of the job on the cluster (default: one of this run's own)")
      ->type_name("NAME")
      ->take_last();
  app->add_option_function<double>(
         "--timeout", [o](double seconds) { o->timeout = absl::Seconds(seconds); },
         "How long one operation on the cluster may take")
      ->type_name("SECONDS")
      ->default_str(absl::StrCat(absl::ToDoubleSeconds(o->timeout)))
      ->check(Positive());
}

std::optional<int> ParseArguments(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : kUsageError;
  }
  return std::nullopt;
}

namespace {

absl::Status CheckWorkOptions(const JobOptions& o) {
  if (o.by_queue()) {
    if (!o.join || !o.job.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--join: give --job NAME, that of the job to join");
  }
  if (!o.join && !o.count_work) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(o.join ? "--join" : "--count-work", ": the job's work must be shared by --work queue"));
}

}  // namespace

absl::Status CompleteJobOptions(absl::string_view program, JobOptions* o) {
  if (absl::Status s = CheckWorkOptions(*o); !s.ok()) return s;
  absl::StatusOr<Consistency> consistency = ParseModel(o->model);
  if (!consistency.ok()) return consistency.status();
  o->consistency = *consistency;
  absl::StatusOr<LinkFilters> link_filters = ParseLinkFilters(o->filter_names);
  if (!link_filters.ok())
    return absl::InvalidArgumentError(absl::StrCat("--", link_filters.status().message()));
  o->link_filters = *link_filters;
  if (o->coordinator.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no coordinator: give --coordinator HOST:PORT or set PACELINE_COORDINATOR; or let "
                     "`paceline up --shards 3 -- ",
                     program, " …` start a cluster for this run"));
  }
  if (o->job.empty()) o->job = absl::StrCat(program, "-", getpid(), "-", std::random_device()());
  if (absl::Status s = CheckFolderOf(o->trace_out, "--trace"); !s.ok()) return s;
  return CheckFolderOf(o->json_out, "--json");
}

absl::Status CheckFolderOf(const std::string& path, absl::string_view option) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (path.empty() || folder.empty() || access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", path, ": cannot write into the folder ", folder.string()));
}

ClientOptions WorkerClient(absl::string_view program, const JobOptions& options) {
  if (options.join) {
    return {
        .coordinator = options.coordinator,
        .job = options.job,
        .client_name = absl::StrCat(program, " worker ",
                                    options.worker < 0 ? "that joined" : absl::StrCat(options.worker)),
        .workers = 1,  // at once, beside those that are there
        .timeout = options.timeout,
        .record = options.record,
    };
  }
  return {
      .coordinator = options.coordinator,
      .job = options.job,
      .client_name = absl::StrCat(program, " worker ", options.worker),
      .workers = options.workers,
      .rank = static_cast<uint32_t>(options.worker),
      .timeout = options.timeout,
      .record = options.record,
  };
}

ClientOptions ReaderClient(absl::string_view program, const JobOptions& options) {
  return {
      .coordinator = options.coordinator,
      .job = options.job,
      .client_name = absl::StrCat(program, " reader"),
      .timeout = options.timeout,
  };
}

}  // namespace paceline::examples
