// The coordinator's process: its flags and its end. `paceline-coordinator --help` explains its use.

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/status.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/rpc/logging.h"
#include "libs/rpc/process.h"
#include "libs/snapshot/store/directory.h"
#include "libs/world/system_random.h"
#include "services/coordinator/metadata/facts/facts.h"
#include "services/coordinator/server.h"
#include "services/coordinator/store/etcd_store.h"
#include "services/coordinator/store/rocksdb_store.h"

namespace paceline::coordinator {
namespace {

constexpr int kUsageError = 2;

struct Flags {
  ServerOptions server{.coordinator = {},
                       .listen = "127.0.0.1:7070",
                       .metrics_listen = "127.0.0.1:0",
                       .metrics_cluster = "",
                       .snapshots = nullptr,
                       .statefulset = "",
                       .account_dir = "/var/run/secrets/kubernetes.io/serviceaccount",
                       .advertise = ""};
  std::string snapshot_dir;
  std::string data_dir;
  std::string store;
  std::string leader_lease = "5s";
  std::string port_file;
  std::string session_timeout = "10s";
  std::string keep_alive = "1s";
  std::string log_format = "text";
  std::string log_level = "info";
};

// Empty: it is; else what is wrong.
std::string IsNamespaceAndName(std::string& text) {
  const auto is_name = [](absl::string_view part) {
    constexpr absl::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    return !part.empty() && part.find_first_not_of(kLetters) == absl::string_view::npos;
  };
  const size_t slash = text.find('/');
  const absl::string_view all = text;
  if (slash != std::string::npos && is_name(all.substr(0, slash)) && is_name(all.substr(slash + 1)))
    return "";
  return "'" + text + "' is not NAMESPACE/NAME of a StatefulSet";
}

void AddFlags(CLI::App& app, Flags& flags) {
  Options& options = flags.server.coordinator;
  auto* stores = app.add_option_group("store", "The store of all that must survive a restart; give one of")
                     ->require_option(1);
  stores->add_option("--data-dir", flags.data_dir, "A directory, for a coordinator that runs alone");
  stores->add_option(
      "--store", flags.store,
      "etcd://HOST:PORT[,HOST:PORT…][/PREFIX], which several coordinators may share: one leads, the "
      "others stand by. Each cluster on one etcd has a PREFIX of its own, by default paceline");
  app.add_option(
      "--leader-lease", flags.leader_lease,
      "With --store: how long the others wait for a silent leader before one of them leads; give all "
      "coordinators of a cluster the same");
  app.add_option("--advertise", flags.server.advertise,
                 "With --store: HOST:PORT at which clients find this coordinator (default: its --listen)");
  app.add_option("--listen", flags.server.listen, "HOST:PORT to serve on; port 0 picks a free one");
  app.add_option("--port-file", flags.port_file, "Write HOST:PORT to this file once serving");
  app.add_option("--shards", options.shards, "Shards that must have joined before the cluster starts");
  app.add_option("--replicas", options.replicas,
                 "Copies of each segment besides the first, on other shards; needs at least N + 1 shards. "
                 "A restart may change the number");
  app.add_option(
         "--moves-per-shard", options.moves_per_shard,
         "Segments that move at a time from one shard and to one shard; more are sooner done, and slow "
         "clients down more")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--balance-load", options.by_load.on,
               "Move segments from shards of which clients ask most to others, with their rows or, with "
               "--replicas, as primaries; `paceline top` shows the load");
  app.add_option("--ring-bits", options.ring_bits,
                 "The ring has 2^N segments, for the cluster's life; a restart must state the same");
  app.add_option("--session-timeout", flags.session_timeout,
                 "Evict a session that has been silent for longer");
  app.add_option("--keep-alive", flags.keep_alive, "How often clients should send a keep-alive");
  app.add_option("--snapshot-dir", flags.snapshot_dir,
                 "Directory in which job snapshots are kept; the same for all shards and coordinators, on a "
                 "volume that all of them see (default: no snapshots)")
      ->type_name("DIR");
  app.add_option(
         "--statefulset", flags.server.statefulset,
         "In Kubernetes: the StatefulSet of which the shards are pods. A shard whose pod stops drains if "
         "it is beyond the replicas that are wanted, and hands over otherwise; takes the right to get "
         "statefulsets/scale")
      ->type_name("NAMESPACE/NAME")
      ->check(CLI::Validator(IsNamespaceAndName, "", ""));
  app.add_option("--service-account", flags.server.account_dir,
                 "With --statefulset: folder of the files token and ca.crt")
      ->type_name("DIR");
  app.add_flag("--reflection", flags.server.reflection,
               "Serve gRPC reflection, for tools that ask which methods there are");
  app.add_option("--metrics-listen", flags.server.metrics_listen, "HOST:PORT of the /metrics page");
  app.add_option(
         "--metrics-cluster", flags.server.metrics_cluster,
         "Name of the cluster: all metrics get it as label paceline_cluster; give the shards the same")
      ->type_name("NAME");
  app.add_option("--log-format", flags.log_format, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn or error");
  app.set_version_flag("--version", absl::StrCat("paceline-coordinator ", std::string(kVersion),
                                                 " (feature level ", kFeatureLevel, ")"));
}

absl::Status ParseDuration(const char* flag, const std::string& text, absl::Duration& duration) {
  double seconds = 0;
  if (absl::ParseDuration(text, &duration)) return absl::OkStatus();
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", text, "' is not a duration; expected one such as 10s or 500ms, or seconds"));
}

absl::Status Check(Flags& flags) {
  ABSL_RETURN_IF_ERROR(rpc::SetUpLogging(flags.log_format, flags.log_level));
  Options& options = flags.server.coordinator;
  options.new_cluster = std::max<uint64_t>(1, world::SystemRandom().Next());
  ABSL_RETURN_IF_ERROR(ParseDuration("--session-timeout", flags.session_timeout, options.session_timeout));
  ABSL_RETURN_IF_ERROR(ParseDuration("--keep-alive", flags.keep_alive, options.keep_alive));
  if (!flags.server.advertise.empty()) {
    ABSL_RETURN_IF_ERROR(CheckAddress("--advertise", flags.server.advertise));
  }
  if (!flags.store.empty()) {
    ABSL_RETURN_IF_ERROR(ParseDuration("--leader-lease", flags.leader_lease, options.leader_lease));
    if (options.leader_lease <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError("--leader-lease: expected more than 0");
    }
    if (const auto etcd = ParseEtcdUrl(flags.store); !etcd.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--store: ", etcd.status().message()));
    }
  }
  return Validate(options);
}

// Returns the flags, or the exit code if nothing is to be run.
std::variant<Flags, int> Parse(int argc, char** argv) {
  Flags flags;
  CLI::App app("Decides which shard serves what in a Paceline cluster, and keeps its sessions and tables.",
               "paceline-coordinator");
  app.option_defaults()->always_capture_default();
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (const absl::Status wrong = Check(flags); !wrong.ok()) {
    std::fprintf(stderr, "paceline-coordinator: %s\n", std::string(wrong.message()).c_str());
    return kUsageError;
  }
  return flags;
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const Flags& flags) {
  if (flags.store.empty()) return OpenRocksDbStore(flags.data_dir);
  ABSL_ASSIGN_OR_RETURN(EtcdOptions etcd, ParseEtcdUrl(flags.store));
  // A call that hangs, the pause after it and a second call take less than a lease.
  etcd.call_timeout = std::min(etcd.call_timeout, flags.server.coordinator.leader_lease / 5);
  etcd.hold_off = std::min(etcd.hold_off, flags.server.coordinator.leader_lease / 5);
  return MakeEtcdStore(std::move(etcd));
}

absl::StatusOr<std::unique_ptr<Server>> Start(const Flags& flags) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore(flags));
  // Of a store that cannot be read now this is said when this coordinator is to lead.
  if (const absl::Status ring = Facts::CheckRing(*store, flags.server.coordinator.ring_bits);
      absl::IsFailedPrecondition(ring)) {
    return ring;
  }
  ServerOptions options = flags.server;
  if (!flags.snapshot_dir.empty()) {
    ABSL_ASSIGN_OR_RETURN(options.snapshots, snapshot::OpenDirectory(flags.snapshot_dir));
  }
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(options, std::move(store)));
  ABSL_RETURN_IF_ERROR(rpc::WritePortFile(flags.port_file, server->address()));
  return server;
}

// Waits for a signal. True: another coordinator has started on the same store meanwhile.
bool AwaitEnd(const sigset_t& end_signals, Server& server) {
  constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 500'000'000};
  while (!server.deposed()) {
    const int signal = sigtimedwait(&end_signals, nullptr, &kLook);
    if (signal <= 0) continue;
    spdlog::info("coordinator ends signal={}", signal == SIGINT ? "SIGINT" : "SIGTERM");
    return false;
  }
  spdlog::error("coordinator ends cause=\"another coordinator has started on the same store and leads now\"");
  return true;
}

int Run(const Flags& flags) {
  const sigset_t end_signals = rpc::BlockEndSignals();
  rpc::RaiseDescriptorLimit();
  absl::StatusOr<std::unique_ptr<Server>> server = Start(flags);
  if (!server.ok()) {
    spdlog::error("cannot start error=\"{}\"", std::string(server.status().message()));
    return 1;
  }
  spdlog::info("coordinator serves address={} metrics={} store={} shards={} ring_bits={} version={}",
               (*server)->address(), (*server)->metrics_address(),
               flags.store.empty() ? flags.data_dir : flags.store, flags.server.coordinator.shards,
               flags.server.coordinator.ring_bits, kVersion);
  const bool deposed = AwaitEnd(end_signals, **server);
  server->reset();
  spdlog::info("coordinator has ended");
  return deposed ? 1 : 0;
}

}  // namespace
}  // namespace paceline::coordinator

int main(int argc, char** argv) {
  using namespace paceline::coordinator;  // namespace of this file
  const std::variant<Flags, int> parsed = Parse(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return Run(std::get<Flags>(parsed));
}
