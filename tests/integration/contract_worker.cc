// Checks the contract of the consistency models with values, not with what the system says of itself.
//
// Each worker w writes (its clock + 1) into keys of its own, in a table whose rule is assign, and adds 1 to
// keys all share, in a table whose rule is add. A reader at clock c under SSP(s) must find of every other
// worker at least what it wrote at clock c - s - 1, and of itself exactly what it wrote last. At the end the
// shared keys must hold the number of pushes. Under BSP a reader must find exactly what everyone wrote at
// clock c - 1, itself included, and all the pushes of earlier clocks. Workers sleep at random, which stands
// for computing; nothing waits by sleeping.
//
// Runs every model with every number of workers against the cluster of PACELINE_COORDINATOR and prints one
// JSON object: runs, and rows_pushed as the shards should have counted them: of aggregated tables the rows
// that workers share count once a clock. Some models also run in step: nobody begins a clock before all have
// ended the last one, and each clock takes long enough for the network. Then how old values are depends on
// the model alone.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/mutex.h"
#include "libs/world/random.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

constexpr uint64_t kKeysPerWorker = 16;  // spread over the ring's segments
constexpr uint64_t kClocks = 40;
constexpr absl::Duration kStep = absl::Milliseconds(10);  // of computing, in a clock in step

struct Model {
  std::string name;
  paceline::Consistency consistency;
  uint64_t bound;  // UINT64_MAX: none
};

// How far every worker is: the truth that no server tells.
class Progress {
 public:
  explicit Progress(uint64_t workers) : clocks_(workers) {}

  void Set(uint64_t worker, uint64_t clock) {
    paceline::MutexLock lock(&mutex_);
    clocks_[worker] = clock;
    changed_.SignalAll();
  }
  // Waits until every other worker is at least at `clock`.
  bool AwaitOthers(uint64_t worker, uint64_t clock) {
    paceline::MutexLock lock(&mutex_);
    const auto there = [&] {
      for (uint64_t w = 0; w < clocks_.size(); ++w) {
        if (w != worker && clocks_[w] < clock) return false;
      }
      return true;
    };
    return changed_.AwaitFor(&mutex_, absl::Seconds(60), there);
  }

 private:
  paceline::Mutex mutex_;
  paceline::CondVar changed_;
  std::vector<uint64_t> clocks_;
};

struct Outcome {
  std::string error;           // empty: the contract held
  uint64_t staleness_max = 0;  // by values
  paceline::Stats stats;
};

uint64_t KeyOf(uint64_t worker, uint64_t i) {
  return worker * 1'000'003 + i * 7919 + 1;
}

class Worker {
 public:
  Worker(const Model& model, bool in_step, std::string job, uint64_t workers, uint64_t rank,
         Progress& progress)
      : model_(model),
        in_step_(in_step),
        job_(std::move(job)),
        workers_(workers),
        rank_(rank),
        progress_(progress),
        random_(rank + 17) {}

  Outcome Run() {
    if (absl::Status status = Train(); !status.ok() && outcome_.error.empty()) {
      outcome_.error = absl::StrCat("worker ", rank_, ": ", std::string(status.ToString()));
    }
    return outcome_;
  }

 private:
  absl::Status Train() {
    auto client = paceline::Client::Connect({.job = job_,
                                             .client_name = absl::StrCat("worker-", rank_),
                                             .workers = static_cast<uint32_t>(workers_),
                                             .rank = static_cast<uint32_t>(rank_)});
    if (!client.ok()) return client.status();
    auto last = (*client)->OpenOrCreate(
        "last", paceline::Sparse{
                    .dim = 1, .init = {}, .rule = paceline::Assign{}, .consistency = model_.consistency});
    if (!last.ok()) return last.status();
    auto count = (*client)->OpenOrCreate(
        "count",
        paceline::Sparse{.dim = 2, .init = {}, .rule = paceline::Add{}, .consistency = model_.consistency});
    if (!count.ok()) return count.status();
    std::vector<uint64_t> all;
    for (uint64_t w = 0; w < workers_; ++w) {
      for (uint64_t i = 0; i < kKeysPerWorker; ++i) all.push_back(KeyOf(w, i));
    }
    const uint64_t start = (*client)->clock();
    for (uint64_t done = 0; done < kClocks; ++done) {
      const uint64_t clock = (*client)->clock();
      auto values = last->Pull(all);
      if (!values.ok()) return values.status();
      Check(*values, clock, start);
      if (Bulk()) {
        auto counted = count->Pull(Shared());
        if (!counted.ok()) return counted.status();
        CheckExactly(*counted, static_cast<float>(workers_ * (clock - start)), clock);
      }
      if (!outcome_.error.empty()) return absl::OkStatus();
      absl::SleepFor(in_step_ ? kStep : absl::Microseconds(paceline::world::Uniform(random_, 2'000)));
      if (!in_step_) Straggle(done);
      (void)last->PushAsync(absl::MakeSpan(all).subspan(rank_ * kKeysPerWorker, kKeysPerWorker),
                            std::vector<float>(kKeysPerWorker, static_cast<float>(clock + 1)));
      (void)count->PushAsync(Shared(), std::vector<float>(2 * kKeysPerWorker, 1.0f));
      if (absl::Status status = (*client)->Tick(); !status.ok()) return status;
      progress_.Set(rank_, done + 1);
      if (in_step_ && !progress_.AwaitOthers(rank_, done + 1)) {
        return absl::DeadlineExceededError("the others did not end the clock in 60 s");
      }
    }
    if (absl::Status status = (*client)->Finish(); !status.ok()) return status;
    outcome_.stats = (*client)->stats();
    return absl::OkStatus();
  }

  bool Bulk() const { return std::holds_alternative<paceline::Bsp>(model_.consistency); }

  static std::vector<uint64_t> Shared() {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < kKeysPerWorker; ++i) keys.push_back(1'000'000'007 + i * 104'729);
    return keys;
  }

  // Worker 0 falls behind on purpose in the middle of the run: as far as its model lets the others go, or,
  // where the model has no bound, until they are twelve clocks ahead.
  void Straggle(uint64_t done) {
    if (rank_ != 0 || workers_ == 1 || done != kClocks / 2) return;
    const uint64_t ahead = std::min<uint64_t>(model_.bound, 12);
    if (!progress_.AwaitOthers(rank_, done + ahead)) outcome_.error = "the others did not get ahead in 60 s";
  }

  void Check(const std::vector<float>& values, uint64_t clock, uint64_t start) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t writer = i / kKeysPerWorker;
      const auto seen = static_cast<uint64_t>(values[i]);
      // Of clocks before `start` there are no updates: the row still has its initial 0.
      const uint64_t known = std::max(seen, start);
      if (Bulk()) {
        if (known != clock) return Fail("not exactly the clocks before its own", writer, clock, seen);
        continue;
      }
      if (writer == rank_) {
        if (known != clock && model_.bound != UINT64_MAX) return Fail("its own write", writer, clock, seen);
        continue;
      }
      const uint64_t behind = clock > known ? clock - known : 0;
      outcome_.staleness_max = std::max(outcome_.staleness_max, behind);
      if (behind > model_.bound) return Fail("a value beyond the bound", writer, clock, seen);
    }
  }

  void CheckExactly(const std::vector<float>& values, float expected, uint64_t clock) {
    for (float value : values) {
      if (value == expected) continue;
      outcome_.error = absl::StrCat("worker ", rank_, " at clock ", clock, " read a count of ", value,
                                    ", exactly ", expected, " is right under ", model_.name);
    }
  }

  void Fail(const char* what, uint64_t writer, uint64_t clock, uint64_t seen) {
    outcome_.error = absl::StrCat("worker ", rank_, " at clock ", clock, " read ", what, ": of worker ",
                                  writer, " it saw ", seen, " under ", model_.name);
  }

  const Model& model_;
  const bool in_step_;
  const std::string job_;
  const uint64_t workers_;
  const uint64_t rank_;
  Progress& progress_;
  paceline::world::SplitMix64 random_;
  Outcome outcome_;
};

// A fresh client reads what all pushes of the job sum to.
std::string CheckCount(const std::string& job, uint64_t workers) {
  auto client = paceline::Client::Connect({.job = job, .client_name = "counter"});
  if (!client.ok()) return client.status().ToString();
  auto count = (*client)->Open("count");
  if (!count.ok()) return count.status().ToString();
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kKeysPerWorker; ++i) keys.push_back(1'000'000'007 + i * 104'729);
  auto values = count->Pull(keys);
  if (!values.ok()) return values.status().ToString();
  for (float value : *values) {
    if (value != static_cast<float>(workers * kClocks)) {
      return absl::StrCat("a shared key holds ", value, " after ", workers * kClocks, " pushes of 1");
    }
  }
  return "";
}

nlohmann::json RunOne(const Model& model, uint64_t workers, bool in_step = false) {
  const std::string job = absl::StrCat("contract-", model.name, "-", workers, in_step ? "-in-step-" : "-",
                                       absl::ToUnixNanos(absl::Now()));
  Progress progress(workers);
  std::vector<Outcome> outcomes(workers);
  {
    std::vector<std::jthread> threads;
    for (uint64_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] { outcomes[w] = Worker(model, in_step, job, workers, w, progress).Run(); });
    }
  }
  nlohmann::json run{{"model", model.name}, {"workers", workers}, {"error", ""}};
  uint64_t rows = 0;
  uint64_t by_values = 0;
  std::map<uint64_t, uint64_t> observed;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) run["error"] = outcome.error;
    rows += outcome.stats.rows_pushed;
    by_values = std::max(by_values, outcome.staleness_max);
    for (const auto& [staleness, count] : outcome.stats.staleness_rows) observed[staleness] += count;
  }
  if (run["error"] == "") run["error"] = CheckCount(job, workers);
  if (std::holds_alternative<paceline::Bsp>(model.consistency))
    rows -= (workers - 1) * kKeysPerWorker * kClocks;
  run["rows_pushed"] = rows;
  run["staleness_by_values"] = by_values;
  run["staleness_by_certificates"] = observed.empty() ? 0 : observed.rbegin()->first;
  run["observed"] = nlohmann::json::array();
  for (const auto& [staleness, count] : observed) run["observed"].push_back({staleness, count});
  for (const char* name : {"rows_pulled", "rows_from_cache", "rows_refreshed"}) run[name] = 0;
  for (const Outcome& outcome : outcomes) {
    run["rows_pulled"] = run["rows_pulled"].get<uint64_t>() + outcome.stats.rows_pulled;
    run["rows_from_cache"] = run["rows_from_cache"].get<uint64_t>() + outcome.stats.rows_from_cache;
    run["rows_refreshed"] = run["rows_refreshed"].get<uint64_t>() + outcome.stats.rows_refreshed;
  }
  return run;
}

}  // namespace

int main() {
  const std::vector<Model> models = {{"ssp:0", paceline::Ssp{0}, 0},
                                     {"ssp:2", paceline::Ssp{2}, 2},
                                     {"ssp:8", paceline::Ssp{8}, 8},
                                     {"essp:2", paceline::Essp{2}, 2},
                                     {"essp:8", paceline::Essp{.staleness = 8, .every = 1}, 8},
                                     {"asp", paceline::Asp{}, UINT64_MAX},
                                     {"bsp", paceline::Bsp{}, 0}};
  const std::vector<Model> models_in_step = {{"ssp:8", paceline::Ssp{8}, 8},
                                             {"essp:8", paceline::Essp{8}, 8},
                                             {"essp:8/each", paceline::Essp{.staleness = 8, .every = 1}, 8}};
  nlohmann::json out{
      {"runs", nlohmann::json::array()}, {"in_step", nlohmann::json::array()}, {"rows_pushed", 0}};
  bool ok = true;
  uint64_t rows = 0;
  for (const Model& model : models) {
    for (uint64_t workers : {1, 2, 4}) {
      out["runs"].push_back(RunOne(model, workers));
      rows += out["runs"].back()["rows_pushed"].get<uint64_t>();
      ok = ok && out["runs"].back()["error"] == "";
    }
  }
  for (const Model& model : models_in_step) {
    out["in_step"].push_back(RunOne(model, /*workers=*/3, /*in_step=*/true));
    rows += out["in_step"].back()["rows_pushed"].get<uint64_t>();
    ok = ok && out["in_step"].back()["error"] == "";
  }
  out["rows_pushed"] = rows;
  std::cout << out.dump() << std::endl;
  return ok ? 0 : 1;
}
