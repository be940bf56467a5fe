#include "bench/replicas.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/plain_files.h"
#include "bench/shard_pages.h"
#include "libs/base/status.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench {
namespace {

constexpr int kShards = 3;

enum class Disks { kNone, kWrittenBehind, kDurable };
enum class Pushes { kSparse, kWhole };

struct Setup {
  Pushes pushes = Pushes::kSparse;
  int replicas = 0;
  bool near = false;  // primaries reach copies over shared memory; the client's streams go over TCP
  Disks disks = Disks::kNone;
  size_t beside = 0;  // the setup that its figures are compared with
};

// Of one setup, a value each round.
struct Figures {
  std::vector<double> push_keys, pull_keys, push_cpu;
  std::vector<double> plain_keys;  // as many as plain files would take, where all is synced
};

// The work of a cluster's disks so far.
struct DiskWork {
  double bytes = 0, syncs = 0, rows = 0;

  static DiskWork Of(const ShardPages& pages) {
    return {.bytes = pages.Sum("paceline_shard_disk_written_bytes_total"),
            .syncs = pages.Sum("paceline_shard_disk_syncs_total"),
            .rows = pages.Sum("paceline_shard_rows_pushed_total")};
  }
};

absl::StatusOr<double> ValueOf(const std::vector<Result>& results, const std::string& metric) {
  for (const Result& result : results) {
    if (result.metric == metric) return result.value;
  }
  return absl::InternalError(absl::StrCat("the workload has no figure '", metric, "'"));
}

absl::Status Take(const std::vector<Result>& results, Figures& figures) {
  for (auto [metric, values] :
       {std::pair{"push keys/s", &figures.push_keys}, std::pair{"pull keys/s", &figures.pull_keys},
        std::pair{"push CPU ns/key", &figures.push_cpu}}) {
    ABSL_ASSIGN_OR_RETURN(const double value, ValueOf(results, metric));
    values->push_back(value);
  }
  return absl::OkStatus();
}

// Pushed keys a second if the same bytes went to a plain file a shard, each with as many to a sync.
absl::StatusOr<double> PlainKeys(const std::filesystem::path& folder, const DiskWork& work) {
  if (work.syncs < 1 || work.rows < 1 || work.bytes < 1) {
    return absl::InternalError("bench: the shards say that they have written nothing");
  }
  ABSL_ASSIGN_OR_RETURN(
      const double rate,
      PlainFilesBytesPerSecond(folder, kShards, static_cast<size_t>(work.bytes / work.syncs)));
  return rate / (work.bytes / work.rows);
}

absl::Status RunOnce(tool::Supervisor& supervisor, Setting setting, const Setup& setup, Figures& figures) {
  ABSL_ASSIGN_OR_RETURN(const auto temporary, tool::DataFolder::Open(""));
  // Shards have disks where their folder is named.
  ABSL_ASSIGN_OR_RETURN(const auto named, tool::DataFolder::Open((temporary->path() / "cluster").string()));
  tool::LocalCluster cluster(supervisor, setup.disks == Disks::kNone ? *temporary : *named,
                             {.programs = tool::FolderOfPrograms(),
                              .shards = kShards,
                              .replicas = setup.replicas,
                              .durable = setup.disks == Disks::kDurable,
                              .socket_dir = setup.near ? (temporary->path() / "sockets").string() : ""});
  absl::Status done = cluster.Start();
  if (done.ok()) {
    setting.coordinator = cluster.address();
    const absl::StatusOr<std::vector<Result>> results =
        setup.pushes == Pushes::kSparse ? Sparse(setting) : Whole(setting);
    done = results.ok() ? Take(*results, figures) : results.status();
  }
  DiskWork work;
  if (done.ok()) {
    const absl::StatusOr<ShardPages> pages = ShardPages::Of(cluster.address());
    if (pages.ok()) work = DiskWork::Of(*pages);
    done = pages.status();
  }
  cluster.Stop();
  if (!done.ok() || setup.disks != Disks::kDurable) return done;
  ABSL_ASSIGN_OR_RETURN(const double plain, PlainKeys(temporary->path(), work));
  figures.plain_keys.push_back(plain);
  return absl::OkStatus();
}

const char* NameOf(Disks disks) {
  switch (disks) {
    case Disks::kNone:
      return "none";
    case Disks::kWrittenBehind:
      return "written behind";
    case Disks::kDurable:
      break;
  }
  return "acks durable";
}

const char* NameOf(Pushes pushes) {
  return pushes == Pushes::kSparse ? "1,000 rows of 16" : "64 MB";
}

// ns a key are so many s for 1e9 bytes of values.
double SecondsPerGb(Pushes pushes) {
  return 1.0 / ((pushes == Pushes::kSparse ? kSparseDim : kWholeDim) * sizeof(float));
}

absl::StatusOr<std::vector<Result>> Run(const Setting& setting, const std::string& workload,
                                        const std::string& limit_name, const std::vector<Setup>& setups) {
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  std::vector<Figures> figures(setups.size());
  const int rounds = setting.smallest ? 1 : setting.quick ? 2 : 3;
  for (int round = 0; round < rounds; ++round) {  // in turn: the machine's mood changes
    for (size_t i = 0; i < setups.size(); ++i) {
      ABSL_RETURN_IF_ERROR(RunOnce(*supervisor, setting, setups[i], figures[i]));
    }
  }
  std::vector<Result> results;
  for (size_t i = 0; i < setups.size(); ++i) {
    const Figures& own = figures[i];
    const Figures& beside = figures[setups[i].beside];
    nlohmann::json params{{"shards", kShards},
                          {"replicas", setups[i].replicas},
                          {"disks", NameOf(setups[i].disks)},
                          {"pushes", NameOf(setups[i].pushes)}};
    if (setups[i].near) params["copies_over"] = "shared memory";
    const auto add = [&](const char* metric, double value, const std::string& limit, double limit_value,
                         bool lower) {
      results.push_back({.workload = workload,
                         .params = params,
                         .metric = metric,
                         .value = value,
                         .limit_name = limit,
                         .limit = limit_value,
                         .lower_is_better = lower});
    };
    const double seconds_per_gb = SecondsPerGb(setups[i].pushes);
    add("push keys/s", Median(own.push_keys), limit_name, Median(beside.push_keys), false);
    if (!own.plain_keys.empty())
      add("push keys/s", Median(own.push_keys), "plain files, fdatasync", Median(own.plain_keys), false);
    add("push CPU-s/GB", Median(own.push_cpu) * seconds_per_gb, limit_name,
        Median(beside.push_cpu) * seconds_per_gb, true);
    add("pull keys/s", Median(own.pull_keys), limit_name, Median(beside.pull_keys), false);
  }
  return results;
}

}  // namespace

absl::StatusOr<std::vector<Result>> WithReplicas(const Setting& setting) {
  return Run(setting, "replicas", "no replicas",
             {{.replicas = 0},
              {.replicas = 1},
              {.replicas = 2},
              {.replicas = 1, .near = true},
              {.replicas = 2, .near = true}});
}

absl::StatusOr<std::vector<Result>> WithDisks(const Setting& setting) {
  std::vector<Setup> setups;
  for (const Pushes pushes : {Pushes::kSparse, Pushes::kWhole}) {
    for (const int replicas : {0, 1}) {
      if (setting.smallest && pushes == Pushes::kWhole && replicas != 0) continue;
      const size_t beside = setups.size();
      for (const Disks disks : {Disks::kNone, Disks::kWrittenBehind, Disks::kDurable}) {
        setups.push_back({.pushes = pushes, .replicas = replicas, .disks = disks, .beside = beside});
      }
    }
  }
  return Run(setting, "disks", "no disks", setups);
}

}  // namespace paceline::bench
