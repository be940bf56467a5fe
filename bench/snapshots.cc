// The cost of snapshots for readers: an open loop of pulls, without snapshots and while they are taken.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/shard_pages.h"
#include "bench/workloads.h"
#include "libs/base/mutex.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "paceline/client.h"
#include "tools/paceline/coordinator.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

constexpr uint32_t kDim = 16;
constexpr size_t kBatch = 500;
constexpr int kPushEvery = 10;  // of so many requests one is a push: rows change while they are copied

struct Load {
  Table table;
  uint64_t rows = 0;
  world::SplitMix64 random{11};

  std::vector<uint64_t> Keys() {
    std::vector<uint64_t> keys(kBatch);
    for (uint64_t& key : keys) key = world::Uniform(random, rows);
    return keys;
  }
};

absl::Status Fill(Client& client, Load& load) {
  const std::vector<float> values(kBatch * kDim, 0.5f);
  std::vector<uint64_t> keys(kBatch);
  for (uint64_t first = 0; first < load.rows; first += kBatch) {
    for (size_t i = 0; i < kBatch; ++i) keys[i] = first + i;
    (void)load.table.PushAsync(keys, values);
  }
  return client.Flush();
}

// Requests a second with many outstanding.
absl::StatusOr<double> Capacity(Load& load, double seconds) {
  constexpr size_t kOutstanding = 32;
  const auto begin = steady_clock::now();
  std::vector<Future<std::vector<float>>> pulls;
  size_t done = 0;
  std::chrono::duration<double> took{};
  while (took.count() < seconds) {
    while (pulls.size() < kOutstanding) pulls.push_back(load.table.PullAsync(load.Keys()));
    for (auto& pull : pulls) ABSL_RETURN_IF_ERROR(std::move(pull).Get().status());
    done += pulls.size();
    pulls.clear();
    took = steady_clock::now() - begin;
  }
  return static_cast<double>(done) / took.count();
}

// Latencies of an open loop: requests start when they are due, whatever became of those before, and count
// from then.
class OpenLoop {
 public:
  absl::StatusOr<std::vector<double>> Run(Load& load, double per_second, const std::function<bool()>& stop) {
    const std::vector<float> values(kBatch * kDim, 0.5f);
    const std::chrono::duration<double> every(1 / per_second);
    const auto begin = steady_clock::now();
    uint64_t sent = 0;
    for (; !stop(); ++sent) {
      const auto due = begin + std::chrono::duration_cast<steady_clock::duration>(every * sent);
      std::this_thread::sleep_until(due);  // the arrival of a request, not a wait for anything
      if (sent % kPushEvery == 0) {
        load.table.PushAsync(load.Keys(), values).OnReady([this](const absl::Status& status) {
          Ended(status, std::nullopt);
        });
      } else {
        load.table.PullAsync(load.Keys()).OnReady([this, due](const auto& result) {
          const std::chrono::duration<double, std::milli> took = steady_clock::now() - due;
          Ended(result.status(), took.count());
        });
      }
    }
    MutexLock lock(&mutex_);
    changed_.Await(&mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_ == sent; });
    ABSL_RETURN_IF_ERROR(status_);
    return ms_;
  }

 private:
  void Ended(const absl::Status& status, std::optional<double> ms) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    status_.Update(status);
    if (ms.has_value()) ms_.push_back(*ms);
    ++ended_;
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> ms_ ABSL_GUARDED_BY(mutex_);
};

double Percentile(std::vector<double> values, double of) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<size_t>(of * static_cast<double>(values.size())))];
}

// Takes a snapshot, and deletes it, on a thread of its own.
class Snapshot {
 public:
  Snapshot(const std::string& coordinator, std::string job)
      : coordinator_(coordinator), job_(std::move(job)), thread_([this] { Take(); }) {}
  ~Snapshot() { thread_.join(); }

  bool done() const { return done_; }
  // REQUIRES: done(). How long it took.
  absl::StatusOr<double> Seconds() const {
    ABSL_RETURN_IF_ERROR(status_);
    return seconds_;
  }

 private:
  void Take() {
    v1::CreateSnapshotRequest create;
    create.set_job(job_);
    create.set_now(true);
    const auto begin = steady_clock::now();
    const auto created =
        coordinator_.Ask(&v1::Coordinator::Stub::CreateSnapshot, std::move(create), absl::Minutes(10));
    seconds_ = std::chrono::duration<double>(steady_clock::now() - begin).count();
    status_ = created.status();
    if (created.ok()) {
      v1::DeleteSnapshotRequest remove;
      remove.set_snapshot(created->snapshot().name());
      status_ = coordinator_.Ask(&v1::Coordinator::Stub::DeleteSnapshot, std::move(remove), absl::Minutes(1))
                    .status();
    }
    done_ = true;
  }

  tool::Coordinator coordinator_;
  const std::string job_;
  absl::Status status_;
  double seconds_ = 0;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

struct Percentiles {
  std::vector<double> p50, p99, longest;  // of each round, in ms

  void Add(const std::vector<double>& ms) {
    p50.push_back(Percentile(ms, 0.5));
    p99.push_back(Percentile(ms, 0.99));
    longest.push_back(Percentile(ms, 1));
  }
};

}  // namespace

absl::StatusOr<std::vector<Result>> WithSnapshots(const Setting& setting) {
  const std::string job = absl::StrCat("bench-snapshots-", absl::ToUnixNanos(absl::Now()));
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                        Client::Connect({.coordinator = setting.coordinator,
                                         .job = job,
                                         .client_name = "paceline-bench",
                                         .record = setting.record}));
  paceline::Sparse schema;
  schema.dim = kDim;
  schema.rule = Adagrad{.lr = 0.01f};
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("rows", schema));
  constexpr double kRowBytes = sizeof(uint64_t) + 2 * kDim * sizeof(float);
  Load load{.table = table,
            .rows = setting.smallest ? 20'000 : static_cast<uint64_t>(setting.gigabytes * 1e9 / kRowBytes)};
  ABSL_RETURN_IF_ERROR(Fill(*client, load));
  ABSL_ASSIGN_OR_RETURN(const double capacity, Capacity(load, setting.smallest ? 0.1 : 5));
  const double rate = 0.3 * capacity;
  Percentiles quiet;
  Percentiles busy;
  std::vector<double> seconds;
  for (int round = 0; round < (setting.smallest ? 1 : 5); ++round) {  // in turn: the machine's mood changes
    const auto end = steady_clock::now() + std::chrono::milliseconds(setting.smallest ? 100 : 6'000);
    ABSL_ASSIGN_OR_RETURN(const std::vector<double> without,
                          OpenLoop().Run(load, rate, [&] { return steady_clock::now() >= end; }));
    quiet.Add(without);
    Snapshot snapshot(setting.coordinator, job);
    const auto with = OpenLoop().Run(load, rate, [&] { return snapshot.done(); });
    ABSL_RETURN_IF_ERROR(with.status());
    busy.Add(*with);
    ABSL_ASSIGN_OR_RETURN(const double took, snapshot.Seconds());
    seconds.push_back(took);
  }
  ABSL_ASSIGN_OR_RETURN(const ShardPages pages, ShardPages::Of(setting.coordinator));
  const nlohmann::json params{{"batch", kBatch}, {"dim", kDim}, {"rows", load.rows}, {"pulls/s", rate}};
  std::vector<Result> results;
  const auto add = [&](const char* metric, double value, const char* limit_name, double limit) {
    results.push_back({.workload = "snapshots",
                       .params = params,
                       .metric = metric,
                       .value = value,
                       .limit_name = limit_name,
                       .limit = limit,
                       .lower_is_better = true});
  };
  add("pull p50 ms", Median(busy.p50), "quiet", Median(quiet.p50));
  add("pull p99 ms", Median(busy.p99), "quiet", Median(quiet.p99));
  add("longest pull ms", Median(busy.longest), "quiet", Median(quiet.longest));
  add("longest copy ms", pages.Sum("paceline_shard_snapshot_copy_longest_seconds") * 1e3, "quiet pull p99",
      Median(quiet.p99));
  add("a snapshot s", Median(seconds), "a second", 1);
  return results;
}

}  // namespace paceline::bench
