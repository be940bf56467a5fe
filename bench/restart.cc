#include "bench/restart.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "bench/soak/real_cluster.h"
#include "bench/soak/recovery_probe.h"
#include "libs/base/status.h"
#include "libs/ring/segment_map.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"
#include "tools/paceline/data_folder.h"

namespace paceline::bench {
namespace {

constexpr uint32_t kDim = 64;
constexpr size_t kRowsAPush = 4096;
constexpr double kQuickGigabytes = 1;
constexpr absl::Duration kTimeout = absl::Minutes(10);
constexpr char kShard[] = "shard-0";

// Odd, so that no row looks like another or like none.
float ValueOf(uint64_t key, uint32_t column) {
  return static_cast<float>((key * kDim + column) % 1'000'003 * 2 + 1);
}

int Cores() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Does `visit` with each open file of the folder.
absl::Status ForEachFile(const std::filesystem::path& folder, absl::FunctionRef<absl::Status(int fd)> visit) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::ErrnoToStatus(errno, entry.path().string());
    const absl::Status status = visit(fd);
    close(fd);
    ABSL_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> SecondsToRead(const std::filesystem::path& folder) {
  std::string block(size_t{1} << 20, '\0');
  const absl::Time began = world::MonotonicNow();
  ABSL_RETURN_IF_ERROR(ForEachFile(folder, [&](int fd) -> absl::Status {
    ssize_t n = 0;
    while ((n = read(fd, block.data(), block.size())) > 0) {
    }
    return n < 0 ? absl::ErrnoToStatus(errno, "read") : absl::OkStatus();
  }));
  return absl::ToDoubleSeconds(world::MonotonicNow() - began);
}

absl::Status DropFromPageCache(const std::filesystem::path& folder) {
  return ForEachFile(folder, [](int fd) -> absl::Status {
    if (fsync(fd) != 0) return absl::ErrnoToStatus(errno, "fsync");
    const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "posix_fadvise");
  });
}

// One shard with a disk, and its rows.
class Restarts {
 public:
  explicit Restarts(const Setting& setting)
      : gigabytes_(setting.smallest ? 0.01
                   : setting.quick  ? std::min(setting.gigabytes, kQuickGigabytes)
                                    : setting.gigabytes),
        keys_(static_cast<uint64_t>(gigabytes_ * 1e9) / (kDim * sizeof(float))) {}

  absl::Status Start() {
    ABSL_ASSIGN_OR_RETURN(supervisor_, tool::Supervisor::Create());
    ABSL_ASSIGN_OR_RETURN(data_, tool::DataFolder::Open(""));
    ABSL_ASSIGN_OR_RETURN(
        cluster_, RealCluster::Start(*supervisor_,
                                     {.folder = data_->path(),
                                      .shards = 1,
                                      .replicas = 0,
                                      .threads = Cores(),
                                      .memory_budget = absl::StrCat(static_cast<uint64_t>(2e9 * gigabytes_)),
                                      .acks = "durable",
                                      .watched = false,
                                      .session_timeout = kTimeout}));
    ABSL_ASSIGN_OR_RETURN(const ring::SegmentMap map, cluster_->Map());
    for (uint32_t s = 0; s < map.SegmentCount(); ++s) segments_.push_back(SegmentId(s));
    ABSL_ASSIGN_OR_RETURN(probe_, RecoveryProbe::Open(cluster_->address(), map.ring_bits(), ""));
    return Fill();
  }

  // Seconds from a start until the shard serves all it had, and to read its files from end to end.
  struct Round {
    double serves = 0;
    double reads = 0;
  };
  absl::StatusOr<Round> KillAndRestart(bool cold) {
    Round round;
    ABSL_RETURN_IF_ERROR(cluster_->Kill(kShard));
    if (cold) ABSL_RETURN_IF_ERROR(DropFromPageCache(folder()));
    ABSL_ASSIGN_OR_RETURN(round.reads, SecondsToRead(folder()));
    if (cold) ABSL_RETURN_IF_ERROR(DropFromPageCache(folder()));
    const absl::Time began = world::MonotonicNow();
    ABSL_RETURN_IF_ERROR(cluster_->Restart(kShard));
    ABSL_ASSIGN_OR_RETURN(const absl::Duration took, probe_->Measure(segments_, began));
    ABSL_RETURN_IF_ERROR(CheckRows());
    round.serves = absl::ToDoubleSeconds(took);
    return round;
  }

  double gigabytes() const { return gigabytes_; }
  absl::Status End() {
    rows_.reset();
    client_.reset();
    probe_.reset();
    return cluster_->EndServers();
  }

 private:
  std::filesystem::path folder() const { return cluster_->options().folder / kShard; }

  absl::Status Fill() {
    ABSL_ASSIGN_OR_RETURN(client_, Client::Connect({.coordinator = cluster_->address(),
                                                    .job = "restart",
                                                    .client_name = "paceline-bench",
                                                    .timeout = kTimeout}));
    ABSL_ASSIGN_OR_RETURN(rows_, client_->OpenOrCreate("rows", paceline::Sparse{.dim = kDim, .rule = Add{}}));
    for (uint64_t key = 0; key < keys_; key += kRowsAPush) {
      std::vector<uint64_t> keys;
      std::vector<float> values;
      for (uint64_t k = key; k < std::min(keys_, key + kRowsAPush); ++k) {
        keys.push_back(k);
        for (uint32_t c = 0; c < kDim; ++c) values.push_back(ValueOf(k, c));
      }
      // Flush has the errors of all of them.
      (void)rows_->PushAsync(keys, values);
      if (key % (64 * kRowsAPush) == 0) ABSL_RETURN_IF_ERROR(client_->Flush());
    }
    return client_->Flush();
  }

  absl::Status CheckRows() {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 1000; ++i) keys.push_back(keys_ * i / 1000);
    ABSL_ASSIGN_OR_RETURN(const std::vector<float> values, rows_->Pull(keys));
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t key = keys[i / kDim];
      if (values[i] == ValueOf(key, static_cast<uint32_t>(i % kDim))) continue;
      return absl::DataLossError(absl::StrCat("row ", key, " is not what it was before the restart"));
    }
    return absl::OkStatus();
  }

  const double gigabytes_;
  const uint64_t keys_;
  std::unique_ptr<tool::Supervisor> supervisor_;
  std::unique_ptr<tool::DataFolder> data_;
  std::unique_ptr<RealCluster> cluster_;
  std::vector<SegmentId> segments_;
  std::unique_ptr<RecoveryProbe> probe_;
  std::unique_ptr<Client> client_;
  std::optional<Table> rows_;
};

}  // namespace

absl::StatusOr<std::vector<Result>> Restart(const Setting& setting) {
  Restarts restarts(setting);
  ABSL_RETURN_IF_ERROR(restarts.Start());
  std::vector<Result> results;
  for (const bool cold : {false, true}) {
    std::vector<double> serve, read;
    for (int round = 0; round < (setting.smallest ? 1 : 3); ++round) {
      ABSL_ASSIGN_OR_RETURN(const Restarts::Round one, restarts.KillAndRestart(cold));
      serve.push_back(one.serves);
      read.push_back(one.reads);
    }
    results.push_back({.workload = "restart",
                       .params = {{"rows_gb", restarts.gigabytes()}, {"page_cache", cold ? "cold" : "warm"}},
                       .metric = "seconds until it serves",
                       .value = Median(serve),
                       .limit_name = "to read its files",
                       .limit = Median(read),
                       .lower_is_better = true});
  }
  ABSL_RETURN_IF_ERROR(restarts.End());
  return results;
}

}  // namespace paceline::bench
