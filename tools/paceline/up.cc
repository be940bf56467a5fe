#include "tools/paceline/up.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/shm/handover.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/defaults.h"
#include "tools/paceline/drill.h"
#include "tools/paceline/local_cluster.h"
#include "tools/paceline/restarts.h"
#include "tools/paceline/supervisor.h"

namespace paceline::tool {
namespace {

constexpr int kShardsMax = 256;
constexpr int kReplicasMax = 8;
constexpr absl::Duration kCommandGrace = absl::Seconds(10);

constexpr char kMore[] =
    "Starts a coordinator and shards as processes on the loopback interface. Prints one line,\n"
    "`ready coordinator=HOST:PORT`, when the cluster is up, and runs until SIGINT (^C) or SIGTERM.\n"
    "\n"
    "paceline up [OPTIONS] -- COMMAND [ARGUMENTS...]\n"
    "  Runs COMMAND with PACELINE_COORDINATOR=HOST:PORT and PACELINE_SOCKET_DIR=DIR in its environment,\n"
    "  instead of printing that line. Stops the cluster when COMMAND ends, and exits as it did\n"
    "  (128 + N after signal N).";

void Say(const std::string& text) {
  std::fputs(absl::StrCat("paceline: ", text, "\n").c_str(), stderr);
}

// Each client takes 4 MiB for its streams to a shard, and two shards with copies of each other's segments as
// much: of few shards that is little.
constexpr int kShardsNear = 8;

// As a shard will do: its socket's name is its address.
absl::Status TrySocket(const std::string& dir) {
  ABSL_ASSIGN_OR_RETURN(const std::string path, shm::SocketPath(dir, "127.0.0.1:65535"));
  ABSL_RETURN_IF_ERROR(shm::MakeFolder(dir));
  ABSL_RETURN_IF_ERROR(shm::ListenAt(path).status());
  const shm::SocketFile removed_at_the_end(path);
  return absl::OkStatus();
}

// The folder of sockets. A command on this machine finds it in its environment, so by default it gets one; no
// cluster that is kept does, because nobody has asked for sockets in its folder.
std::string SocketDir(const UpOptions& o, const DataFolder& folder) {
  if (!o.shared_memory) return "";
  const bool by_default = !o.command.empty() && folder.temporary() && o.shards <= kShardsNear;
  if (!o.socket_dir.empty() || !by_default) return o.socket_dir;
  std::string dir = std::filesystem::absolute(folder.path() / "sockets").string();
  const absl::Status may = TrySocket(dir);
  if (may.ok()) return dir;
  Say(absl::StrCat("streams go over TCP and not over shared memory: ", may.message(),
                   "; --socket-dir names another folder"));
  return "";
}

LocalClusterOptions ClusterOptions(const UpOptions& o, const std::string& socket_dir) {
  return {.programs = FolderOfPrograms(),
          .shards = o.shards,
          .replicas = o.replicas,
          .port = o.port >= 0         ? o.port
                  : o.command.empty() ? kCoordinatorPort
                                      : 0,
          .memory_budget_bytes = o.memory_budget_bytes,
          .durable = o.durable,
          .balance_load = o.balance_load,
          .snapshot_dir = o.snapshot_dir,
          .socket_dir = socket_dir,
          .verbose = o.verbose};
}

// One `paceline up`, from the first process to the last.
class ClusterRun {
 public:
  ClusterRun(const UpOptions& options, Supervisor& supervisor, DataFolder& folder)
      : options_(options),
        supervisor_(supervisor),
        socket_dir_(SocketDir(options, folder)),
        cluster_(supervisor, folder, ClusterOptions(options, socket_dir_)) {}

  // The exit code.
  int Run() {
    const absl::Status started = cluster_.Start();
    int exit_code = 1;
    if (started.ok()) {
      for (const std::string& problem : cluster_.Problems()) Say(problem);
      exit_code = options_.command.empty() ? Stay() : RunCommand();
    } else if (absl::IsCancelled(started)) {
      exit_code = options_.command.empty() ? 0 : 128 + cluster_.signal();
    } else {
      Say(std::string(started.message()));
    }
    return Stop() || !options_.command.empty() ? exit_code : 1;
  }

 private:
  // Until a signal says to stop, or there is nothing left.
  int Stay() {
    std::fputs(absl::StrCat("ready coordinator=", cluster_.address(), "\n").c_str(), stdout);
    std::fflush(stdout);
    while (!cluster_.AllEnded() || restarts_.Next() != absl::InfiniteFuture()) {
      const Supervisor::Event event = supervisor_.Wait(restarts_.Next());
      if (std::holds_alternative<Supervisor::Signalled>(event)) return 0;
      if (const auto* ended = std::get_if<Supervisor::Ended>(&event)) Report(*ended->child);
      Restart();
    }
    Say("all processes of the cluster have ended");
    return 1;
  }

  int RunCommand() {
    ChildOptions command;
    command.name = options_.command.front();
    command.arguments = options_.command;
    // That of another cluster would have no socket of these shards.
    command.environment = {absl::StrCat(kCoordinatorVariable, "=", cluster_.address()),
                           absl::StrCat(kSocketDirVariable, "=", socket_dir_)};
    const absl::StatusOr<const Child*> child = supervisor_.Start(std::move(command));
    if (!child.ok()) {
      Say(std::string(child.status().message()));
      return absl::IsNotFound(child.status()) ? 127 : 126;  // as a shell has it
    }
    absl::Time patience = absl::InfiniteFuture();
    if (options_.drill) drill_.emplace(supervisor_, cluster_);
    while (!(*child)->end.has_value()) {
      const absl::Time step = drill_.has_value() ? drill_->NextStep() : absl::InfiniteFuture();
      const Supervisor::Event event = supervisor_.Wait(std::min({patience, step, restarts_.Next()}));
      const bool timed_out = std::holds_alternative<Supervisor::TimedOut>(event);
      if (timed_out && restarts_.Next() < std::min(patience, step)) {
        Restart();
      } else if (timed_out && step < patience) {
        drill_->Step();
      } else if (const auto* ended = std::get_if<Supervisor::Ended>(&event)) {
        if (ended->child != *child) Report(*ended->child);
      } else if (const auto* signalled = std::get_if<Supervisor::Signalled>(&event)) {
        PassOn(*signalled, **child, patience);
      } else {
        supervisor_.Signal(**child, SIGKILL);
        patience = absl::InfiniteFuture();
      }
    }
    return ExitCodeOf(*(*child)->end);
  }

  // The command decides what a signal means to it, within bounds. A terminal has told it already, and may do
  // so for events that are not an end, as in an interpreter.
  void PassOn(const Supervisor::Signalled& signalled, const Child& command, absl::Time& patience) {
    if (signalled.by_terminal) return;
    const bool again = patience != absl::InfiniteFuture();
    supervisor_.Signal(command, again ? SIGKILL : signalled.signal);
    patience = world::MonotonicNow() + kCommandGrace;
  }

  void Report(const Child& child) {
    if (drill_.has_value() && drill_->Killed(child)) return;
    reported_.push_back(&child);
    std::string next = "The other processes continue without it";
    if (options_.restart) {
      const absl::Duration pause = restarts_.Ended(child.name, world::MonotonicNow());
      next =
          absl::StrCat("It starts again in ", absl::FormatDuration(pause), "; the others continue meanwhile");
    }
    Say(absl::StrCat(cluster_.Describe(child), "\n  ", next, "; see `paceline status --coordinator ",
                     cluster_.address(), "`."));
  }

  // Those that are due.
  void Restart() {
    while (const std::optional<std::string> name = restarts_.Take(world::MonotonicNow())) {
      const absl::Status started = cluster_.Restart(*name);
      if (started.ok()) {
        Say(absl::StrCat(*name, " has started again"));
        continue;
      }
      const absl::Duration pause = restarts_.Ended(*name, world::MonotonicNow());
      Say(absl::StrCat(*name, ": ", started.message(), "; next attempt in ", absl::FormatDuration(pause)));
    }
  }

  // False if a process did not end well.
  bool Stop() {
    const std::vector<const Child*> failed = cluster_.Stop();
    for (const Child* child : failed) {
      if (drill_.has_value() && drill_->Killed(*child)) continue;
      if (std::find(reported_.begin(), reported_.end(), child) == reported_.end())
        Say(absl::StrCat("while stopping: ", cluster_.Describe(*child)));
    }
    return failed.empty() && reported_.empty();
  }

  const UpOptions& options_;
  Supervisor& supervisor_;
  const std::string socket_dir_;  // empty: streams go over TCP
  LocalCluster cluster_;
  std::vector<const Child*> reported_;
  std::optional<Drill> drill_;
  Restarts restarts_{world::MonotonicNow()};
};

}  // namespace

CLI::App* AddUp(CLI::App& app, UpOptions& options) {
  CLI::App* up = app.add_subcommand("up", "Run a cluster on this machine, by itself or for one command");
  up->add_option("--shards", options.shards, "Number of shards")
      ->type_name("N")
      ->check(CLI::Range(1, kShardsMax))
      ->capture_default_str();
  up->add_option("--replicas", options.replicas,
                 "Copies of each row besides the first, on other shards; needs at least N + 1 shards")
      ->type_name("N")
      ->check(CLI::Range(0, kReplicasMax))
      ->capture_default_str();
  up->add_option("--data-dir", options.data_dir,
                 "Folder of the cluster's files, kept for the next start: the coordinator's store, each "
                 "shard's rows, "
                 "and logs/. (default: a temporary folder for the first and the last, removed at the end)");
  up->add_flag(
      "--durable", options.durable,
      "Acknowledge an update when every member has it on its disk, not only in memory; needs --data-dir");
  up->add_flag(
      "--balance-load", options.balance_load,
      "Move segments from shards of which clients ask most to others; `paceline top` shows the load");
  up->add_option("--snapshot-dir", options.snapshot_dir,
                 "Folder of job snapshots (default: snapshots/ in --data-dir; without one there are none)")
      ->type_name("DIR");
  CLI::Option* const dir = up->add_option(
      "--socket-dir", options.socket_dir,
      "Folder of sockets at which clients of this user, and the shards themselves, get streams over shared "
      "memory; COMMAND finds it in PACELINE_SOCKET_DIR (default: with a COMMAND, without --data-dir and for "
      "up to 8 shards a temporary folder, else none)");
  dir->type_name("DIR");
  up->add_flag("!--no-shared-memory", options.shared_memory,
               "Streams between COMMAND and the shards, and between shards, go over TCP, as they do between "
               "machines")
      ->excludes(dir);
  up->add_option("--port", options.port,
                 absl::StrCat("The coordinator's port, 0 for a free one (default: ", kCoordinatorPort,
                              "; 0 with a COMMAND)"))
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535));
  up->add_option("--memory-budget", options.memory_budget_bytes,
                 "Memory that the rows of one shard may take, as 512MiB or 4GiB (default: 4GiB)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->type_name("SIZE");
  up->add_flag(
      "--drill", options.drill,
      "While COMMAND trains, kill one shard, and report when its replicas have taken over; needs --replicas");
  up->add_flag(
      "!--no-restart", options.restart,
      "Do not restart processes that end by themselves. Without this flag they are restarted after pauses "
      "that grow from half a second to 30 s; --drill implies it");
  up->add_flag("--verbose", options.verbose, "Write the processes' logs to standard error instead of files");
  up->footer(kMore);
  return up;
}

int Up(const UpOptions& given) {
  UpOptions options = given;
  options.restart = given.restart && !given.drill;
  if (options.replicas >= options.shards) {
    Say(absl::StrCat("--replicas ", options.replicas, " needs ", options.replicas + 1,
                     " shards, because each copy is on another one; add --shards ", options.replicas + 1));
    return kUsageError;
  }
  if (options.durable && options.data_dir.empty()) {
    Say("--durable needs --data-dir: a temporary folder is removed at the end");
    return kUsageError;
  }
  if (options.drill && (options.replicas == 0 || options.command.empty())) {
    Say("--drill needs a COMMAND that trains, and --replicas 1 or more: without replicas the killed shard's "
        "rows are lost");
    return kUsageError;
  }
  const absl::StatusOr<std::unique_ptr<Supervisor>> supervisor = Supervisor::Create();
  if (!supervisor.ok()) {
    Say(std::string(supervisor.status().message()));
    return 1;
  }
  const absl::StatusOr<std::unique_ptr<DataFolder>> folder = DataFolder::Open(options.data_dir);
  if (!folder.ok()) {
    Say(std::string(folder.status().message()));
    return 1;
  }
  if (!options.verbose) {
    Say(absl::StrCat("logs are in ", (*folder)->logs().string(),
                     (*folder)->temporary() ? ", until the end; --data-dir keeps them" : ""));
  }
  return ClusterRun(options, **supervisor, **folder).Run();
}

}  // namespace paceline::tool
