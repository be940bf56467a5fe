#include "bench/soak/soak.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "bench/result.h"
#include "bench/soak/journal.h"
#include "bench/soak/soak_worker.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/verify.h"

namespace paceline::bench {
namespace {

// Workers may wait for one that was killed until it is evicted.
constexpr absl::Duration kFinishTimeout = absl::Minutes(2);
constexpr absl::Duration kBeginTimeout = absl::Minutes(1);

// The sum of all rows of the counting table.
absl::StatusOr<uint64_t> SumOfCounts(const std::string& coordinator, const std::string& record) {
  ABSL_ASSIGN_OR_RETURN(const auto client,
                        Client::Connect({.coordinator = coordinator, .job = kSoakJob, .record = record}));
  ABSL_ASSIGN_OR_RETURN(Table counts, client->Open(kCountsTable));
  std::vector<uint64_t> keys(kCountsKeys);
  std::iota(keys.begin(), keys.end(), 0);
  ABSL_ASSIGN_OR_RETURN(const std::vector<float> rows, counts.Pull(keys));
  double sum = 0;
  for (float row : rows) sum += static_cast<double>(row);
  return static_cast<uint64_t>(sum);
}

// One run, from its processes to its proof.
class Run {
 public:
  explicit Run(const SoakOptions& options) : options_(options) {}

  absl::Status Start() {
    ABSL_ASSIGN_OR_RETURN(supervisor_, tool::Supervisor::Create());
    ABSL_ASSIGN_OR_RETURN(data_, tool::DataFolder::Open(options_.folder));
    ABSL_ASSIGN_OR_RETURN(cluster_, RealCluster::Start(*supervisor_, {.folder = data_->path(),
                                                                      .shards = options_.shards,
                                                                      .replicas = options_.replicas,
                                                                      .acks = options_.acks,
                                                                      .lose_power = options_.lose_power,
                                                                      .seed = options_.seed}));
    std::filesystem::create_directories(Journals());
    for (int i = 0; i < options_.workers; ++i) {
      workers_.push_back(absl::StrCat("worker-", i));
      ABSL_RETURN_IF_ERROR(StartWorker(workers_.back(), options_.workers));
    }
    ABSL_ASSIGN_OR_RETURN(const ring::SegmentMap map, cluster_->Map());
    ABSL_ASSIGN_OR_RETURN(probe_, RecoveryProbe::Open(cluster_->address(), map.ring_bits(), Record("probe")));
    faults_ = std::make_unique<Faults>(
        *cluster_, *probe_, options_.targets, workers_,
        [this](const std::string& name) { return StartWorker(name, 1); },
        [this](const std::string& line) { Say(line); }, options_.seed);
    return AwaitWork();
  }

  RealCluster& cluster() { return *cluster_; }
  Faults& faults() { return *faults_; }

  // Everyone finishes, all rows are read, and the servers end.
  absl::Status Finish() {
    Say("the workers finish");
    ABSL_RETURN_IF_ERROR(cluster_->End(workers_, kFinishTimeout));
    Say("the workers have finished");
    probe_ = nullptr;
    ABSL_ASSIGN_OR_RETURN(sum_, SumOfCounts(cluster_->address(), Record("reader")));
    return cluster_->EndServers();
  }

  absl::StatusOr<SoakOutcome> Outcome(double seconds) {
    ABSL_ASSIGN_OR_RETURN(const std::vector<JournalSums> journals, ReadJournals());
    JournalSums sums;
    for (const JournalSums& of_one : journals) {
      sums.acknowledged += of_one.acknowledged;
      sums.unacknowledged += of_one.unacknowledged;
      sums.pushes += of_one.pushes;
    }
    std::vector<std::string> records;
    for (const auto& entry : std::filesystem::directory_iterator(cluster_->records())) {
      records.push_back(entry.path().string());
    }
    std::sort(records.begin(), records.end());
    ABSL_ASSIGN_OR_RETURN(const verify::Report report, tool::VerifyFiles(records));
    const FaultCounts& counts = faults_->counts();
    SoakOutcome outcome;
    outcome.json = {{"shards", options_.shards},
                    {"replicas", options_.replicas},
                    {"workers", options_.workers},
                    {"acks", options_.acks},
                    {"model", options_.model},
                    {"seconds", seconds},
                    {"pushes", sums.pushes},
                    {"sum", sum_},
                    {"acknowledged", sums.acknowledged},
                    {"unacknowledged", sums.unacknowledged},
                    {"kills", counts.kills},
                    {"kills_of_all", counts.kills_of_all},
                    {"bytes_lost", cluster_->bytes_lost()},
                    {"stops", counts.stops},
                    {"cuts", counts.cuts},
                    {"takeovers", counts.takeovers},
                    {"recovery_seconds", counts.recovery_seconds},
                    {"recovery_seconds_median", Median(counts.recovery_seconds)},
                    {"verify_violations", report.violations_found},
                    {"verify", verify::ToJson(report)}};
    const bool sum_fits =
        sum_ >= sums.acknowledged && sum_ <= sums.acknowledged + sums.unacknowledged && sums.acknowledged > 0;
    outcome.ok = sum_fits && report.violations.empty() && !report.checked_nothing();
    outcome.json["ok"] = outcome.ok;
    outcome.text = absl::StrCat(
        "sum ", sum_, ", acknowledged ", sums.acknowledged, ", unacknowledged ", sums.unacknowledged, ": ",
        sum_fits ? "fits" : "does NOT fit", "\n", counts.kills, " kills (", counts.kills_of_all, " of all, ",
        cluster_->bytes_lost(), " bytes lost that were not synced), ", counts.stops, " stops, ", counts.cuts,
        " broken links, ", counts.takeovers, " takeovers, recovery in ", Median(counts.recovery_seconds),
        " s (median of ", counts.recovery_seconds.size(), ")\n", verify::ToText(report));
    return outcome;
  }

  // Keeps the folder of a failed run, for somebody to look at.
  void Keep() const {
    if (data_ == nullptr) return;
    std::error_code ignored;
    const std::filesystem::path kept = data_->path().string() + "-kept";
    if (data_->temporary()) {
      std::filesystem::copy(data_->path(), kept, std::filesystem::copy_options::recursive, ignored);
    }
    std::fprintf(stderr, "logs, journals and history files: %s\n",
                 (data_->temporary() ? kept : data_->path()).c_str());
  }

 private:
  std::filesystem::path Journals() const { return data_->path() / "journals"; }
  absl::StatusOr<std::vector<JournalSums>> ReadJournals() const {
    std::vector<JournalSums> journals;
    for (const auto& entry : std::filesystem::directory_iterator(Journals())) {
      ABSL_ASSIGN_OR_RETURN(journals.emplace_back(), SumsOf(entry.path().string()));
    }
    return journals;
  }

  // Faults before the workers have begun would prove nothing.
  absl::Status AwaitWork() {
    const absl::Time end = world::MonotonicNow() + kBeginTimeout;
    while (true) {
      ABSL_ASSIGN_OR_RETURN(const std::vector<JournalSums> journals, ReadJournals());
      const auto begun =
          std::ranges::count_if(journals, [](const auto& one) { return one.acknowledged > 0; });
      if (begun >= options_.workers) break;
      if (world::MonotonicNow() > end) {
        return absl::DeadlineExceededError(absl::StrCat("soak: of ", options_.workers, " workers ", begun,
                                                        " had a push acknowledged within ",
                                                        absl::FormatDuration(kBeginTimeout)));
      }
      ABSL_RETURN_IF_ERROR(cluster_->Pause(absl::Milliseconds(50)));
    }
    Say("the workers have begun");
    return absl::OkStatus();
  }

  // Prints an event with its time, for people who watch.
  void Say(const std::string& line) const {
    std::fprintf(stderr, "%7.2f s  %s\n", absl::ToDoubleSeconds(world::MonotonicNow() - began_),
                 line.c_str());
  }
  std::string Record(const std::string& name) const { return (cluster_->records() / name).string(); }

  absl::Status StartWorker(const std::string& name, int together) {
    const int start = starts_++;
    return cluster_->StartProcess(
        name,
        {std::filesystem::read_symlink("/proc/self/exe").string(), "soak-worker", "--coordinator",
         cluster_->address(), "--workers", absl::StrCat(together), "--rate", absl::StrCat(options_.rate),
         "--seed", absl::StrCat(options_.seed * 1000 + static_cast<uint64_t>(start)), "--journal",
         (Journals() / absl::StrCat(name, "-", start)).string(), "--record", Record(name), "--model",
         options_.model});
  }

  const SoakOptions& options_;
  const absl::Time began_ = world::MonotonicNow();
  std::unique_ptr<tool::Supervisor> supervisor_;
  std::unique_ptr<tool::DataFolder> data_;
  std::unique_ptr<RealCluster> cluster_;
  std::unique_ptr<RecoveryProbe> probe_;
  std::unique_ptr<Faults> faults_;
  std::vector<std::string> workers_;
  int starts_ = 0;
  uint64_t sum_ = 0;
};

absl::Status Check(const SoakOptions& options) {
  const bool durable = options.acks == "durable";
  if (!durable && std::ranges::find(options.targets, Target::kAll) != options.targets.end()) {
    return absl::InvalidArgumentError(
        "--targets: all; expected --acks durable with it: without disks nothing would be left");
  }
  if (!durable && options.lose_power) {
    return absl::InvalidArgumentError(
        "--lose-power: expected --acks durable with it: otherwise what is acknowledged need not be synced");
  }
  std::error_code ignored;
  if (!options.folder.empty() && std::filesystem::exists(options.folder, ignored) &&
      !std::filesystem::is_empty(options.folder, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--folder: ", options.folder,
                     " is not empty; expected a new or empty folder: what earlier runs left "
                     "would count as this one's"));
  }
  if (options.replicas < options.shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--replicas: ", options.replicas, "; expected less than --shards, ", options.shards));
}

absl::StatusOr<SoakOutcome> Work(const SoakOptions& options, const std::function<absl::Status(Run&)>& work) {
  ABSL_RETURN_IF_ERROR(Check(options));
  Run run(options);
  const absl::Time began = world::MonotonicNow();
  absl::Status status = run.Start();
  if (status.ok()) status = work(run);
  if (status.ok()) status = run.Finish();
  if (!status.ok()) {
    run.Keep();
    return status;
  }
  auto outcome = run.Outcome(absl::ToDoubleSeconds(world::MonotonicNow() - began));
  if (!outcome.ok() || !outcome->ok) run.Keep();
  return outcome;
}

}  // namespace

absl::StatusOr<SoakOutcome> Soak(const SoakOptions& options) {
  return Work(options, [&options](Run& run) -> absl::Status {
    const absl::Time end = world::MonotonicNow() + absl::Seconds(options.seconds);
    if (options.targets.empty()) return run.cluster().Pause(absl::Seconds(options.seconds));
    while (world::MonotonicNow() < end) {
      // Work in peace in between, too.
      ABSL_RETURN_IF_ERROR(run.cluster().Pause(absl::Milliseconds(500)));
      ABSL_RETURN_IF_ERROR(run.faults().One());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<SoakOutcome> Recovery(const SoakOptions& options) {
  if (options.replicas == 0) {
    return absl::InvalidArgumentError(
        "--replicas: 0; expected 1 or more: without replicas a shard that is killed takes its rows with it");
  }
  return Work(options, [&options](Run& run) -> absl::Status {
    for (int kill = 0; kill < options.kills; ++kill) {
      ABSL_RETURN_IF_ERROR(run.cluster().Pause(absl::Milliseconds(500)));
      const std::vector<std::string> shards = run.cluster().shards();
      ABSL_RETURN_IF_ERROR(run.faults().KillShard(shards[static_cast<size_t>(kill) % shards.size()]));
    }
    return absl::OkStatus();
  });
}

}  // namespace paceline::bench
