// The cost of snapshots for readers: an open loop of pulls, without snapshots and while they are taken.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/open_loop.h"
#include "bench/shard_pages.h"
#include "bench/workloads.h"
#include "libs/base/status.h"
#include "paceline/client.h"
#include "tools/paceline/coordinator.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

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
  schema.dim = Load::kDim;
  schema.rule = Adagrad{.lr = 0.01f};
  schema.consistency = Asp{};
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate("rows", schema));
  constexpr double kRowBytes = sizeof(uint64_t) + 2 * Load::kDim * sizeof(float);
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
  const nlohmann::json params{
      {"batch", Load::kBatch}, {"dim", Load::kDim}, {"rows", load.rows}, {"requests/s", rate}};
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
