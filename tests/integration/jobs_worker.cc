// Trains until it is told to stop, and says what the tables come to: jobs_worker JOB WORKERS. With 0 workers
// it deletes the job.
//
// Every worker pushes a gradient of 1 for one key of "weights" (sgd, rate 1) in every clock; the first one
// also adds 1 to a key of "scratch", and opens that again when it is dropped. Prints "training" once some
// clocks have passed, then waits for a line on standard input, ends at a clock that nobody has reached, and
// prints one JSON object. With a second line it ends; until then its session stays open.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

constexpr uint64_t kKey = 7;

// When to end, agreed among the workers.
class End {
 public:
  // False: the worker at `clock` is done.
  bool GoesOn(uint64_t clock) {
    const std::lock_guard lock(mutex_);
    newest_ = std::max(newest_, clock);
    return clock < end_;
  }
  // Nobody has reached the clock that is returned.
  uint64_t Set() {
    const std::lock_guard lock(mutex_);
    return end_ = newest_ + 1;
  }

 private:
  std::mutex mutex_;
  uint64_t newest_ = 0;
  uint64_t end_ = UINT64_MAX;
};

struct Outcome {
  std::string error;
  uint64_t scratch_pushes = 0;  // to the table as it is now
  uint64_t scratch_opened = 0;
};

absl::StatusOr<paceline::Table> OpenScratch(paceline::Client& client) {
  return client.OpenOrCreate("scratch", paceline::Sparse{.dim = 1, .rule = paceline::Add{}});
}

absl::Status PushScratch(paceline::Client& client, paceline::Table& scratch, Outcome& outcome) {
  const std::vector<float> one = {1};
  const absl::Status pushed = scratch.Push({&kKey, 1}, one);
  if (!absl::IsInvalidArgument(pushed)) {
    outcome.scratch_pushes += pushed.ok() ? 1 : 0;
    return pushed;
  }
  (void)client.Flush();  // which tells of it too, or else Finish would
  absl::StatusOr<paceline::Table> again = OpenScratch(client);
  if (!again.ok()) return again.status();
  scratch = *again;
  outcome.scratch_pushes = 0;
  ++outcome.scratch_opened;
  return absl::OkStatus();
}

absl::Status Train(const std::string& job, uint32_t workers, End& end, std::atomic<uint64_t>& passed,
                   Outcome& outcome) {
  auto client = paceline::Client::Connect({.job = job, .workers = workers});
  if (!client.ok()) return client.status();
  auto weights =
      (*client)->OpenOrCreate("weights", paceline::Sparse{.dim = 1, .rule = paceline::Sgd{.lr = 1}});
  if (!weights.ok()) return weights.status();
  auto scratch = OpenScratch(**client);
  if (!scratch.ok()) return scratch.status();
  const std::vector<float> gradient = {1};
  while (end.GoesOn((*client)->clock())) {
    (void)weights->PushAsync({&kKey, 1}, gradient);
    if ((*client)->rank() == 0) {
      if (absl::Status pushed = PushScratch(**client, *scratch, outcome); !pushed.ok()) return pushed;
    }
    if (auto read = weights->Pull({&kKey, 1}); !read.ok()) return read.status();
    absl::SleepFor(absl::Milliseconds(1));  // computes
    if (absl::Status ticked = (*client)->Tick(); !ticked.ok()) return ticked;
    passed.store(std::max(passed.load(), (*client)->clock()));
    passed.notify_all();
  }
  return (*client)->Finish();
}

// Reads the job's tables, and changes them after the workers have ended.
absl::Status Inspect(paceline::Client& reader, nlohmann::json& result) {
  for (const char* name : {"weights", "scratch"}) {
    auto table = reader.Open(name);
    if (!table.ok()) return table.status();
    auto value = table->Pull({&kKey, 1});
    if (!value.ok()) return value.status();
    result[name] = value->front();
  }
  auto at_once = reader.ChangeRule("weights", paceline::Sgd{.lr = 2});
  if (!at_once.ok()) return at_once.status();
  result["rates_from"] = *at_once;
  auto later = reader.ChangeRule("weights", paceline::Sgd{.lr = 4}, {.at_clock = 1'000'000});
  if (!later.ok()) return later.status();
  result["later_rates_from"] = *later;
  auto scratch = reader.Open("scratch");
  if (!scratch.ok()) return scratch.status();
  if (absl::Status dropped = reader.DropTable("scratch"); !dropped.ok()) return dropped;
  result["pull_of_dropped"] = std::string(scratch->Pull({&kKey, 1}).status().message());
  result["open_of_dropped"] = std::string(reader.Open("scratch").status().message());
  return absl::OkStatus();
}

int Delete(const std::string& job) {
  const absl::Status deleted = paceline::Client::DeleteJob("", job, {.force = true});
  std::puts(std::string(deleted.ToString()).c_str());
  return deleted.ok() ? 0 : 1;
}

int Run(const std::string& job, uint32_t workers) {
  End end;
  std::atomic<uint64_t> passed{0};
  std::vector<Outcome> outcomes(workers);
  std::vector<std::thread> threads;
  for (Outcome& outcome : outcomes) {
    threads.emplace_back([&] {
      outcome.error = std::string(Train(job, workers, end, passed, outcome).message());
      if (outcome.error.empty()) return;
      passed.store(UINT64_MAX);
      passed.notify_all();
    });
  }
  for (uint64_t now = passed.load(); now < 5; now = passed.load()) passed.wait(now);
  std::puts("training");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  nlohmann::json result = {{"clocks", end.Set()}, {"error", ""}};
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) result["error"] = outcome.error;
    if (outcome.scratch_pushes > 0) result["scratch_pushes"] = outcome.scratch_pushes;
    if (outcome.scratch_opened > 0) result["scratch_opened"] = outcome.scratch_opened;
  }
  auto reader = paceline::Client::Connect({.job = job, .client_name = "reader"});
  if (!reader.ok()) {
    result["error"] = std::string(reader.status().message());
  } else {
    const absl::Status inspected = Inspect(**reader, result);
    if (!inspected.ok()) result["error"] = std::string(inspected.message());
  }
  std::puts(result.dump().c_str());
  std::fflush(stdout);
  std::getline(std::cin, line);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t workers = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &workers)) {
    std::fputs("usage: jobs_worker JOB WORKERS\n", stderr);
    return 2;
  }
  return workers == 0 ? Delete(argv[1]) : Run(argv[1], workers);
}
