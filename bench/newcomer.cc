#include "bench/newcomer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench {
namespace {

constexpr uint32_t kWorkers = 8;
constexpr int kShards = 3;
constexpr uint32_t kStaleness = 2;
constexpr uint64_t kRows = 1000;
constexpr size_t kBatch = 50;
constexpr uint32_t kDim = 8;
constexpr absl::Duration kComputing = absl::Milliseconds(10);  // which they sleep
constexpr double kMoreWaitMs = 50;
constexpr double kFirstPushMs = 1000;

// A worker of the job.
class Worker {
 public:
  // With `workers` > 1 it returns once so many have called it.
  absl::Status Join(const std::string& coordinator, uint32_t workers) {
    ABSL_ASSIGN_OR_RETURN(client_,
                          Client::Connect({.coordinator = coordinator,
                                           .job = "newcomer",
                                           .client_name = "paceline-bench",
                                           .workers = workers,
                                           .cache_bytes_max = 0}));  // each read is judged by a shard
    ABSL_ASSIGN_OR_RETURN(
        table_, client_->OpenOrCreate(
                    "rows", paceline::Sparse{
                                .dim = kDim, .rule = Add{}, .consistency = Ssp{.staleness = kStaleness}}));
    return absl::OkStatus();
  }
  absl::Status Push() { return table_->Push(keys_, values_); }

  // Clock after clock until Stop; then it has finished.
  void Start() {
    thread_ = std::thread([this] { status_ = Train(); });
  }
  absl::Status Stop() {
    stop_ = true;
    thread_.join();
    return status_;
  }
  double WaitedMs() const { return 1e3 * client_->stats().wait.staleness; }

 private:
  absl::Status Train() {
    for (; !stop_; Next()) {
      ABSL_RETURN_IF_ERROR(table_->Pull(keys_).status());
      absl::SleepFor(kComputing);
      table_->PushAsync(keys_, values_).OnReady([](const absl::Status&) {});  // Finish reports errors
      ABSL_RETURN_IF_ERROR(client_->Tick());
    }
    return client_->Finish();
  }
  void Next() {
    for (uint64_t& key : keys_) key = (key + kBatch) % kRows;
  }
  static std::vector<uint64_t> FirstKeys() {
    std::vector<uint64_t> keys(kBatch);
    for (size_t i = 0; i < kBatch; ++i) keys[i] = i;
    return keys;
  }

  std::unique_ptr<Client> client_;
  std::optional<Table> table_;
  std::vector<uint64_t> keys_ = FirstKeys();
  const std::vector<float> values_ = std::vector<float>(kBatch * kDim, 1);
  std::atomic<bool> stop_ = false;
  absl::Status status_;
  std::thread thread_;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

absl::StatusOr<Workers> StartTogether(const std::string& coordinator) {
  Workers workers;
  for (uint32_t i = 0; i < kWorkers; ++i) workers.push_back(std::make_unique<Worker>());
  std::vector<absl::Status> joined(kWorkers);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&, i] { joined[i] = workers[i]->Join(coordinator, kWorkers); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : joined) ABSL_RETURN_IF_ERROR(status);
  for (const auto& worker : workers) worker->Start();
  return workers;
}

std::vector<double> Waited(const Workers& workers) {
  std::vector<double> ms;
  for (const auto& worker : workers) ms.push_back(worker->WaitedMs());
  return ms;
}

// The most that one of them has waited more in the second time than in the first.
double WorstMore(const std::vector<double>& first, const std::vector<double>& second) {
  double worst = second[0] - first[0];
  for (size_t i = 1; i < first.size(); ++i) worst = std::max(worst, second[i] - first[i]);
  return worst;
}

std::vector<double> Minus(std::vector<double> after, const std::vector<double>& before) {
  for (size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return after;
}

// A value a round.
struct Figures {
  std::vector<double> before_ms, after_ms, more_ms, first_push_ms;
};

absl::Status Round(const std::string& coordinator, const Workers& workers, absl::Duration window,
                   Figures& figures) {
  const std::vector<double> start = Waited(workers);
  absl::SleepFor(window);
  const std::vector<double> joins = Waited(workers);
  const absl::Time joined = world::MonotonicNow();
  Worker newcomer;
  ABSL_RETURN_IF_ERROR(newcomer.Join(coordinator, 1));
  ABSL_RETURN_IF_ERROR(newcomer.Push());
  figures.first_push_ms.push_back(absl::ToDoubleMilliseconds(world::MonotonicNow() - joined));
  newcomer.Start();
  absl::SleepFor(joined + window - world::MonotonicNow());
  const std::vector<double> before = Minus(joins, start);
  const std::vector<double> after = Minus(Waited(workers), joins);
  ABSL_RETURN_IF_ERROR(newcomer.Stop());
  figures.before_ms.push_back(std::ranges::max(before));
  figures.after_ms.push_back(std::ranges::max(after));
  figures.more_ms.push_back(WorstMore(before, after));
  return absl::OkStatus();
}

absl::Status Measure(const std::string& coordinator, bool smallest, Figures& figures) {
  ABSL_ASSIGN_OR_RETURN(const Workers workers, StartTogether(coordinator));
  const int rounds = smallest ? 2 : 10;
  const absl::Duration window = smallest ? absl::Milliseconds(300) : absl::Seconds(5);
  absl::Status status;
  for (int round = 0; round < rounds && status.ok(); ++round) {
    status = Round(coordinator, workers, window, figures);
    if (status.ok()) {
      Say(absl::StrFormat(
          "newcomer %d of %d: first push after %.0f ms, the worst of the others waits %.0f ms more",
          round + 1, rounds, figures.first_push_ms.back(), figures.more_ms.back()));
    }
  }
  for (const auto& worker : workers) status.Update(worker->Stop());
  return status;
}

std::vector<Result> ResultsOf(const Figures& figures) {
  const auto result = [&](const char* metric, double value, const char* limit_name, double limit) {
    return Result{.workload = "elastic",
                  .params = {{"newcomer", "joins"},
                             {"workers", kWorkers},
                             {"model", absl::StrFormat("ssp:%d", kStaleness)},
                             {"clock ms", absl::ToDoubleMilliseconds(kComputing)},
                             {"rounds", figures.more_ms.size()}},
                  .metric = metric,
                  .value = value,
                  .limit_name = limit_name,
                  .limit = limit,
                  .lower_is_better = true};
  };
  return {result("more staleness wait ms", Median(figures.more_ms), "goal", kMoreWaitMs),
          result("staleness wait ms", Median(figures.after_ms), "before, and the goal",
                 Median(figures.before_ms) + kMoreWaitMs),
          result("first push ms", Median(figures.first_push_ms), "goal", kFirstPushMs),
          result("slowest first push ms", std::ranges::max(figures.first_push_ms), "goal", kFirstPushMs)};
}

}  // namespace

absl::StatusOr<std::vector<Result>> Newcomer(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  tool::LocalCluster cluster(*supervisor, *folder,
                             {.programs = tool::FolderOfPrograms(), .shards = kShards, .replicas = 1});
  Figures figures;
  absl::Status status = cluster.Start();
  if (status.ok()) status = Measure(cluster.address(), setting.smallest, figures);
  cluster.Stop();
  if (!status.ok()) return status;
  return ResultsOf(figures);
}

}  // namespace paceline::bench
