// Counts: each worker adds 1 to every row in each of its clocks and waits until that is committed. At the end
// every row must hold the sum of the workers' clocks, whatever happened to shards and coordinators meanwhile.
// `paceline-count --help` says how to use it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "examples/count/pauses.h"
#include "examples/count/work.h"
#include "examples/lib/connect.h"
#include "examples/lib/console.h"
#include "examples/lib/job_options.h"
#include "examples/lib/steady_now.h"
#include "paceline/client.h"

namespace paceline::examples {
namespace {

constexpr char kProgram[] = "paceline-count";
constexpr absl::Duration kAskAgainEvery = absl::Milliseconds(500);
constexpr absl::Duration kTellEvery = absl::Seconds(5);
constexpr uint64_t kRowsAtOnce = 65536;
constexpr absl::Duration kOthersMayTake = absl::Minutes(10);
constexpr char kCounts[] = "counts";  // a row holds how often it was counted in
constexpr char kDone[] = "done";      // a row per worker, by rank: 1 once it has stopped, and its clocks

volatile std::sig_atomic_t stop_requested = 0;

void RequestStop(int) {
  stop_requested = 1;
}

struct Options {
  std::string coordinator;
  std::string job;
  uint32_t workers = 1;
  uint32_t index = 0;
  uint64_t rows = 1000;
  uint64_t clocks = 100;
  double pause_s = 0;
  double timeout_s = 60;
  bool delete_job = false;
  CountedWork work;  // 0 examples: counts by clocks
};

void AddOptions(CLI::App& app, Options& o) {
  app.add_option("--coordinator", o.coordinator, "The cluster's coordinator, HOST:PORT")
      ->envname("PACELINE_COORDINATOR")
      ->required();
  app.add_option("--job", o.job, "Name of the job on the cluster, one that was not counted in before")
      ->required();
  app.add_option("--workers", o.workers, "Workers that count together")->check(CLI::Range(1, 1024));
  app.add_option("--index", o.index, "Which of them this is; number 0 checks the counts")
      ->envname("JOB_COMPLETION_INDEX");
  app.add_option("--rows", o.rows, "Rows that are counted in")->check(CLI::Range(1, 100'000'000));
  // f32 counts exactly up to there, with one worker.
  app.add_option("--clocks", o.clocks, "How often each worker adds 1, unless it is told to stop by SIGUSR1")
      ->check(CLI::Range(1, 16'000'000));
  app.add_option("--pause", o.pause_s, "Seconds between two clocks")->check(CLI::NonNegativeNumber);
  app.add_option("--timeout", o.timeout_s, "How long one operation on the cluster may take, in seconds")
      ->check(CLI::PositiveNumber);
  app.add_option(
         "--examples", o.work.examples,
         "Instead: share this many examples by a work queue, and count each as it is trained. A worker "
         "with --workers 1 may join at any time, and takes any --index; SIGUSR1 makes it leave")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--per-item", o.work.per_item, "With --examples: examples of one item")
      ->check(CLI::PositiveNumber);
  app.add_option("--passes", o.work.passes, "With --examples: how often all are trained")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--delete-job", o.delete_job, "Delete the job when its counts were right");
}

// Of the worker that this process is, or, with `workers` 0, of a reader.
absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options, uint32_t workers) {
  ClientOptions connect{.coordinator = options.coordinator, .job = options.job};
  connect.client_name = workers == 0 ? "count reader" : absl::StrCat("count worker ", options.index);
  connect.workers = workers;
  if (workers != 0) connect.rank = options.index;
  connect.timeout = absl::Seconds(options.timeout_s);
  return ConnectPatiently(connect);
}

std::vector<uint64_t> Keys(uint64_t first, uint64_t count) {
  std::vector<uint64_t> keys(count);
  std::iota(keys.begin(), keys.end(), first);
  return keys;
}

absl::Status AddOne(Table& table, const Options& options) {
  for (uint64_t first = 0; first < options.rows; first += kRowsAtOnce) {
    const std::vector<uint64_t> keys = Keys(first, std::min(kRowsAtOnce, options.rows - first));
    const std::vector<float> ones(keys.size(), 1);
    if (absl::Status s = table.Push(keys, ones); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Its rows say apart that a worker has stopped and how often it counted, which may be never.
absl::StatusOr<Table> OpenDone(Client& client) {
  return client.OpenOrCreate(kDone, Sparse{.dim = 2, .rule = Assign{}});
}

absl::Status Count(const Options& options) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect(options, options.workers);
  if (!client.ok()) return client.status();
  absl::StatusOr<Table> table =
      (*client)->OpenOrCreate(kCounts, Sparse{.dim = 1, .rule = Add{}, .consistency = Ssp{.staleness = 2}});
  if (!table.ok()) return table.status();
  if ((*client)->clock() != 0) {
    std::fprintf(
        stderr,
        "paceline-count: takes part from clock %d on; the counts will be short of the clocks before\n",
        static_cast<int>((*client)->clock()));
  }
  Pauses pauses;
  absl::Time next_told = SteadyNow() + kTellEvery;
  uint64_t counted = 0;
  for (; (*client)->clock() < options.clocks && stop_requested == 0; ++counted) {
    const absl::Time began = SteadyNow();
    if (absl::Status s = AddOne(*table, options); !s.ok()) return s;
    if (absl::Status s = (*client)->Tick(); !s.ok()) return s;
    pauses.Add(SteadyNow() - began);
    if (SteadyNow() >= next_told) {
      std::printf("paceline-count: clock=%d %s\n", static_cast<int>((*client)->clock()),
                  pauses.ToString().c_str());
      std::fflush(stdout);
      next_told = SteadyNow() + kTellEvery;
    }
    if (options.pause_s > 0) absl::SleepFor(absl::Seconds(options.pause_s));
  }
  // All counts are committed: a reader that sees this number sees all of them.
  absl::StatusOr<Table> done = OpenDone(**client);
  if (!done.ok()) return done.status();
  if (absl::Status s = done->Push({uint64_t{options.index}}, {1, static_cast<float>(counted)}); !s.ok())
    return s;
  if (absl::Status s = (*client)->Finish(); !s.ok()) return s;
  const Stats stats = (*client)->stats();
  std::printf("paceline-count: worker=%u of %u %s retries=%d breaks=%d\n", options.index, options.workers,
              pauses.ToString().c_str(), static_cast<int>(stats.retries), static_cast<int>(stats.breaks));
  return absl::OkStatus();
}

// The sum of all workers' clocks, once all have stopped.
absl::StatusOr<double> Wanted(Client& client, const Options& options) {
  absl::StatusOr<Table> done = OpenDone(client);
  if (!done.ok()) return done.status();
  for (const absl::Time until = SteadyNow() + kOthersMayTake; SteadyNow() < until;) {
    const absl::StatusOr<std::vector<float>> rows = done->Pull(Keys(0, options.workers));
    if (!rows.ok()) return rows.status();
    double stopped = 0;
    double clocks = 0;
    for (size_t i = 0; i < rows->size(); i += 2) {
      stopped += (*rows)[i];
      clocks += (*rows)[i + 1];
    }
    if (stopped == options.workers) return clocks;
    absl::SleepFor(kAskAgainEvery);
  }
  return absl::DeadlineExceededError("the other workers have not stopped; see what became of them");
}

absl::Status Check(const Options& options) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect(options, 0);
  if (!client.ok()) return client.status();
  const absl::StatusOr<double> wanted = Wanted(**client, options);
  if (!wanted.ok()) return wanted.status();
  absl::StatusOr<Table> table = (*client)->Open(kCounts);
  if (!table.ok()) return table.status();
  for (uint64_t first = 0; first < options.rows; first += kRowsAtOnce) {
    const std::vector<uint64_t> keys = Keys(first, std::min(kRowsAtOnce, options.rows - first));
    const absl::StatusOr<std::vector<float>> counts = table->Pull(keys);
    if (!counts.ok()) return counts.status();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (static_cast<double>((*counts)[i]) == *wanted) continue;
      return absl::DataLossError(absl::StrCat("row ", keys[i], " holds ", (*counts)[i], ", expected ",
                                              *wanted, ", the sum of the workers' clocks"));
    }
  }
  std::printf("paceline-count: ok, all %d rows hold %.0f\n", static_cast<int>(options.rows), *wanted);
  return absl::OkStatus();
}

// A client for a work queue: its rank does not matter.
absl::StatusOr<std::unique_ptr<Client>> ConnectToWork(const Options& options, uint32_t workers) {
  return Client::Connect({.coordinator = options.coordinator,
                          .job = options.job,
                          .client_name = absl::StrCat("count worker ", options.index),
                          .workers = workers,
                          .timeout = absl::Seconds(options.timeout_s)});
}

absl::Status RunWork(const Options& options) {
  CountedWork work = options.work;
  work.pause = absl::Seconds(options.pause_s);
  absl::StatusOr<std::unique_ptr<Client>> client = ConnectToWork(options, options.workers);
  if (!client.ok()) return client.status();
  if (absl::Status s = TrainWork(**client, work, [] { return stop_requested != 0; }); !s.ok()) return s;
  if (options.index != 0) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Client>> reader = ConnectToWork(options, 0);
  return reader.ok() ? CheckWork(**reader, work) : reader.status();
}

absl::Status Run(const Options& options) {
  if (options.work.examples > 0) return RunWork(options);
  if (options.index >= options.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--index ", options.index, ": expected less than --workers ", options.workers));
  }
  if (absl::Status s = Count(options); !s.ok()) return s;
  if (options.index != 0) return absl::OkStatus();
  if (absl::Status s = Check(options); !s.ok()) return s;
  if (!options.delete_job) return absl::OkStatus();
  return Client::DeleteJob(options.coordinator, options.job, {.force = true});
}

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  using namespace paceline::examples;  // this file's own
  Options options;
  CLI::App app("Counts in rows of a Paceline cluster, and checks that no update was lost or doubled.",
               kProgram);
  app.option_defaults()->always_capture_default();
  AddOptions(app, options);
  if (const std::optional<int> exit_code = ParseArguments(&app, argc, argv)) return *exit_code;
  std::signal(SIGUSR1, RequestStop);
  const absl::Status status = Run(options);
  return status.ok() ? 0 : Fail(kProgram, status);
}
