// The process of a shard: reads its flags, puts its parts together, and ends it. `paceline-shard --help`
// lists the flags.

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/feature_level.h"
#include "libs/base/mutex.h"
#include "libs/base/status.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "libs/history_file/history_file.h"
#include "libs/metrics/exposer.h"
#include "libs/rpc/connections.h"
#include "libs/rpc/coordinators.h"
#include "libs/rpc/logging.h"
#include "libs/rpc/process.h"
#include "libs/snapshot/store/directory.h"
#include "libs/world/real_clock.h"
#include "libs/world/system_random.h"
#include "services/shard/control/history.h"
#include "services/shard/control/membership_client.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/disk/disk_writer.h"
#include "services/shard/flags.h"
#include "services/shard/huge_pages.h"
#include "services/shard/metrics.h"
#include "services/shard/near_streams.h"
#include "services/shard/process_memory.h"
#include "services/shard/replication/grpc_peers.h"
#include "services/shard/server.h"
#include "services/shard/shard.h"
#include "services/shard/snapshots/snapshot_thread.h"
#include "services/shard/streams/hello.h"

namespace paceline::shard {
namespace {

absl::string_view HostOf(absl::string_view address) {
  return address.substr(0, address.rfind(':'));
}

bool IsWildcard(absl::string_view address) {
  const absl::string_view host = HostOf(address);
  return host == "0.0.0.0" || host == "[::]" || host.empty();
}

// The address at which clients reach the listener at `bound`.
absl::StatusOr<std::string> Advertised(const Flags& flags, const std::string& bound) {
  if (!flags.advertise.empty()) {
    ABSL_RETURN_IF_ERROR(CheckAddress("--advertise", flags.advertise));
    return flags.advertise;
  }
  if (!IsWildcard(bound)) return bound;
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen ", flags.listen, " is not reachable for others; give --advertise HOST:PORT as well"));
}

// The address at which peers reach the listener at `bound`, if clients reach this shard at `address`.
std::string AdvertisedToPeers(const Flags& flags, const std::string& address, const std::string& bound) {
  if (!flags.peer_advertise.empty()) return flags.peer_advertise;
  if (!IsWildcard(bound)) return bound;
  return absl::StrCat(HostOf(address), bound.substr(bound.rfind(':')));
}

// The shard as its page sees it. The page owns the shard's counters and so outlives it: at the end the shard
// is hidden first.
class OnPage {
 public:
  OnPage(Shard& shard, std::string data_dir) : data_dir_(std::move(data_dir)), shard_(&shard) {}
  void Show(metrics::Families& families) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (shard_ != nullptr) ShowShard(families, *shard_, data_dir_);
  }
  // Waits for the scrape under way.
  void Hide() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    shard_ = nullptr;
  }

 private:
  const std::string data_dir_;
  Mutex mutex_;
  Shard* shard_ ABSL_GUARDED_BY(mutex_);
};

// Identifies the folder and the running machine; a copy of the folder gets other numbers. Empty: not known.
std::string PlaceOf(const std::string& dir) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat lock = {};
  if (boot.empty() || stat((dir + "/IN_USE").c_str(), &lock) != 0) return "";
  return absl::StrCat(boot, "/", lock.st_dev, "/", lock.st_ino);
}

absl::Status OpenDisk(const Flags& flags, std::unique_ptr<DiskWriter>& disk, DiskContents& contents) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<engine::Engine> engine, engine::OpenRocksDbEngine(flags.data_dir));
  // Millions of rows of the log may be born now, and nobody is served before.
  const HugePages::PlentyBelow plenty(HugePages::OfProcess(), flags.memory_budget / 2);
  ABSL_ASSIGN_OR_RETURN(contents, LoadDisk(*engine, flags.threads));
  spdlog::info("disk is open data_dir={} segments={}", flags.data_dir, contents.segments.size());
  disk = std::make_unique<DiskWriter>(std::move(engine));
  return absl::OkStatus();
}

// Of all metrics.
metrics::Labels LabelsOf(const Flags& flags) {
  if (flags.metrics_cluster.empty()) return {};
  return {{"paceline_cluster", flags.metrics_cluster}, {"shard", flags.name}};
}

// Everything of the process, in the order of use; it ends in the opposite one.
class Process {
 public:
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Flags& flags,
                                                        MembershipClient::Superseded end) {
    ABSL_ASSIGN_OR_RETURN(std::unique_ptr<metrics::Exposer> page,
                          metrics::Exposer::Start(flags.metrics_listen, LabelsOf(flags)));
    std::unique_ptr<history::HistoryFile> history;
    if (!flags.record.empty()) {
      ABSL_ASSIGN_OR_RETURN(history,
                            history::HistoryFile::Create(flags.record, history::Program::kShard, flags.name));
    }
    std::unique_ptr<DiskWriter> disk;
    DiskContents contents;
    if (!flags.data_dir.empty()) ABSL_RETURN_IF_ERROR(OpenDisk(flags, disk, contents));
    v1::JoinClusterRequest join;
    if (disk != nullptr) {
      *join.mutable_folder() = contents.folder;
      join.mutable_folder()->set_place(PlaceOf(flags.data_dir));
      *join.mutable_known() = contents.known;
    }
    std::unique_ptr<SnapshotThread> snapshots;
    if (!flags.snapshot_dir.empty()) {
      ABSL_ASSIGN_OR_RETURN(std::unique_ptr<snapshot::Files> files,
                            snapshot::OpenDirectory(flags.snapshot_dir));
      snapshots = std::make_unique<SnapshotThread>(std::move(files));
    }
    std::unique_ptr<Process> process(new Process(flags, std::move(page), std::move(history), std::move(disk),
                                                 std::move(contents), std::move(snapshots)));
    if (absl::Status s = process->Serve(flags, std::move(join), std::move(end)); !s.ok()) return s;
    return process;
  }

  // Before the shard ends, others take over its segments where they can.
  void Leave(absl::Duration timeout) {
    const auto view = shard_.view();
    const auto replicated = [](const ring::SegmentMap& map) {
      for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
        if (!map.ConfigOf(SegmentId(s)).replicas.empty()) return true;
      }
      return false;
    };
    if (timeout <= absl::ZeroDuration() || view->map == nullptr || !replicated(*view->map)) return;
    const auto left = membership_->Leave(timeout);
    if (!left.ok()) {
      spdlog::warn("could not leave in order error=\"{}\"; replicas take over by themselves",
                   std::string(left.status().message()));
      return;
    }
    spdlog::info("left handed_over={} let_go={} kept=\"{}\"", left->handed_over(), left->let_go(),
                 absl::StrJoin(left->kept(), "; "));
  }

  ~Process() {
    membership_.reset();
    server_.reset();
    near_.reset();
    shard_.Stop();
    peers_.Stop();
    if (disk_ != nullptr) disk_->Finish();  // first: a volume of snapshots may hang
    if (snapshots_ != nullptr) snapshots_->Stop();
    on_page_->Hide();
  }

 private:
  Process(const Flags& flags, std::unique_ptr<metrics::Exposer> page,
          std::unique_ptr<history::HistoryFile> history, std::unique_ptr<DiskWriter> disk,
          DiskContents contents, std::unique_ptr<SnapshotThread> snapshots)
      : page_(std::move(page)),
        history_(std::move(history)),
        probe_(ProbeFor(*page_, history_.get())),
        peers_(flags.coordinator, clock_, {.socket_dir = flags.socket_dir, .direct = flags.direct_streams}),
        disk_(std::move(disk)),
        snapshots_(std::move(snapshots)),
        shard_({.name = flags.name,
                .nonce = std::max<uint64_t>(1, world::SystemRandom().Next()),
                .executors = flags.threads,
                .memory_budget_bytes = flags.memory_budget,
                .staging_budget_bytes = flags.staging_budget,
                .stream_bytes_max = flags.stream_budget,
                .all_replies_bytes_max = flags.reply_budget,
                .durable = flags.acks == "durable",
                .move_bytes_per_s = flags.move_rate,
                .helper_thread = true,
                .process_memory = ReadProcessMemory},
               clock_, *probe_, &peers_, disk_.get(), std::move(contents)),
        on_page_(std::make_shared<OnPage>(shard_, flags.data_dir)) {
    if (snapshots_ != nullptr) shard_.KeepSnapshots(*snapshots_);
    page_->Collect([shown = on_page_](metrics::Families& families) { shown->Show(families); });
  }

  static std::unique_ptr<MetricsProbe> ProbeFor(metrics::Exposer& page, history::Sink* history) {
    if (history == nullptr) return std::make_unique<MetricsProbe>(page);
    return std::make_unique<HistoryProbe<MetricsProbe>>(*history, page);
  }

  absl::Status Serve(const Flags& flags, v1::JoinClusterRequest join, MembershipClient::Superseded end) {
    const std::string any_port = absl::StrCat(HostOf(flags.listen), ":0");
    ABSL_ASSIGN_OR_RETURN(
        server_, Server::Start(shard_, {.clients = flags.listen,
                                        .peers = flags.peer_listen.empty() ? any_port : flags.peer_listen,
                                        .threads = flags.threads,
                                        .direct_streams = flags.direct_streams,
                                        .reflection = flags.reflection}));
    ABSL_ASSIGN_OR_RETURN(const std::string address, Advertised(flags, server_->address()));
    ABSL_RETURN_IF_ERROR(rpc::WritePortFile(flags.peer_port_file, server_->peer_address()));
    ABSL_RETURN_IF_ERROR(rpc::WritePortFile(flags.port_file, server_->address()));
    Describe(flags, address, join);
    if (!flags.socket_dir.empty()) ABSL_RETURN_IF_ERROR(ServeAlsoNear(flags, join));
    spdlog::info(
        "shard serves name={} address={} peer_address={} metrics={} threads={} memory_budget_bytes={} "
        "version={}",
        flags.name, address, join.peer_address(), join.metrics_address(), flags.threads, flags.memory_budget,
        kVersion);
    const auto connections = server_->connections();
    page_->Collect([connections](metrics::Families& families) {
      rpc::ShowConnections(families, "paceline_shard_", *connections);
    });
    page_->Collect([direct = server_->direct_streams()](metrics::Families& families) {
      families.Gauge("paceline_shard_direct_streams", "Streams over TCP without gRPC that are open now.",
                     static_cast<double>(direct->open), {});
      families.Counter("paceline_shard_direct_streams_total", "Streams over TCP without gRPC that came.",
                       static_cast<double>(direct->taken), {});
    });
    const auto describe = [connections](v1::BeatRequest& beat) {
      v1::Connections& told = *beat.mutable_connections();
      told.set_refused(connections->refused);
      told.set_full(connections->full);
      told.set_descriptors(rpc::LimitsNow().all);
    };
    membership_ = std::make_unique<MembershipClient>(
        shard_, flags.coordinator, join, std::move(end), [this] { server_->SetReady(); }, describe);
    return absl::OkStatus();
  }

  absl::Status ServeAlsoNear(const Flags& flags, const v1::JoinClusterRequest& join) {
    ABSL_ASSIGN_OR_RETURN(near_, NearStreams::Serve(shard_, {.folder = flags.socket_dir,
                                                             .address = join.address(),
                                                             .peer_address = join.peer_address(),
                                                             .threads = flags.threads}));
    spdlog::info("shared memory is served socket_dir={}", flags.socket_dir);
    page_->Collect([counts = near_->counts()](metrics::Families& families) { ShowNear(families, counts); });
    return absl::OkStatus();
  }

  void Describe(const Flags& flags, const std::string& address, v1::JoinClusterRequest& join) const {
    const std::string& metrics = page_->address();
    join.set_feature_level(kFeatureLevel);
    join.set_name(flags.name);
    join.set_address(address);
    join.set_peer_address(AdvertisedToPeers(flags, address, server_->peer_address()));
    join.set_nonce(shard_.options().nonce);
    join.set_zone(flags.zone);
    join.set_keeps_data(!flags.data_dir.empty());
    join.set_metrics_address(
        IsWildcard(metrics) ? absl::StrCat(HostOf(address), metrics.substr(metrics.rfind(':'))) : metrics);
  }

  const world::RealClock clock_;
  std::unique_ptr<metrics::Exposer> page_;
  std::unique_ptr<history::HistoryFile> history_;  // null: nothing is recorded
  std::unique_ptr<MetricsProbe> probe_;
  GrpcPeers peers_;
  std::unique_ptr<DiskWriter> disk_;           // null: nothing is kept on a disk
  std::unique_ptr<SnapshotThread> snapshots_;  // null: there are no snapshots
  Shard shard_;
  std::shared_ptr<OnPage> on_page_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<NearStreams> near_;  // null: no shared memory
  std::unique_ptr<MembershipClient> membership_;
};

// Frames are a megabyte and come and go all the time: without this each of them would be fetched from the
// kernel and given back, page by page.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

int Run(const Flags& flags) {
  KeepFreedMemory();
  table::UsePageMemory(&HugePages::OfProcess());
  // Debian's Abseil looks for deadlocks at each lock, as if this were a debug build.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  rpc::ReadIntoLargeBuffers();
  const sigset_t end_signals = rpc::BlockEndSignals();
  rpc::RaiseDescriptorLimit();
  rpc::KeepGrpcUp();
  std::atomic<bool> superseded = false;
  absl::StatusOr<std::unique_ptr<Process>> process =
      Process::Start(flags, [&superseded](const absl::Status& why) {
        spdlog::error("not a member of the cluster error=\"{}\"", std::string(why.message()));
        superseded = true;
        kill(getpid(), SIGTERM);
      });
  if (!process.ok()) {
    spdlog::error("cannot start error=\"{}\"", std::string(process.status().message()));
    return 1;
  }
  int signal = 0;
  sigwait(&end_signals, &signal);
  spdlog::info("shard ends signal={}", superseded ? "none" : signal == SIGINT ? "SIGINT" : "SIGTERM");
  if (signal == SIGTERM && !superseded) (*process)->Leave(flags.leave_timeout);
  process->reset();
  spdlog::info("shard has ended");
  return superseded ? 1 : 0;
}

}  // namespace
}  // namespace paceline::shard

int main(int argc, char** argv) {
  using namespace paceline::shard;  // this file's own
  const std::variant<Flags, int> parsed = ParseFlags(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return Run(std::get<Flags>(parsed));
}
