// A shard's process: its flags, its parts put together, and how it ends. `paceline-shard --help` says how to
// use it.

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/base/status.h"
#include "libs/base/version.h"
#include "libs/metrics/exposer.h"
#include "libs/rpc/logging.h"
#include "libs/world/real_clock.h"
#include "libs/world/system_random.h"
#include "services/shard/hello.h"
#include "services/shard/membership.h"
#include "services/shard/metrics.h"
#include "services/shard/server.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

constexpr int kUsageError = 2;

struct Flags {
  std::string coordinator;
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string name;
  std::string zone;
  uint64_t memory_budget = ShardOptions().memory_budget_bytes;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string metrics_listen = "127.0.0.1:0";
  std::string port_file;
  std::string log_format = "text";
  std::string log_level = "info";
};

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "shard";
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--coordinator", flags.coordinator, "HOST:PORT of the cluster's coordinator")->required();
  app.add_option("--listen", flags.listen, "HOST:PORT to serve on; port 0 picks a free one");
  app.add_option("--advertise", flags.advertise,
                 "HOST:PORT that others reach this shard at (default: what --listen bound)");
  app.add_option("--name", flags.name,
                 "Who this shard is in the cluster; the same after a restart (default: the host's name)");
  app.add_option("--zone", flags.zone, "Failure domain, for people to see");
  app.add_option("--memory-budget", flags.memory_budget,
                 "Memory that rows may take, as 512MiB or 4GiB; a push beyond it is refused OVER_BUDGET")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->type_name("SIZE")
      ->default_str("4GiB");
  app.add_option("--threads", flags.threads, "Threads that serve streams, and as many that apply updates")
      ->check(CLI::Range(1, 1024));
  app.add_option("--metrics-listen", flags.metrics_listen, "HOST:PORT of the /metrics page");
  app.add_option("--port-file", flags.port_file, "Write the host:port that --listen bound to this file");
  app.add_option("--log-format", flags.log_format, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn or error");
  app.set_version_flag("--version", absl::StrCat("paceline-shard ", std::string(kVersion), " (feature level ",
                                                 kFeatureLevel, ")"));
}

// Flags, or the exit code if there is nothing to do.
std::variant<Flags, int> Parse(int argc, char** argv) {
  Flags flags;
  CLI::App app("Serves segments of a Paceline cluster's tables.", "paceline-shard");
  app.option_defaults()->always_capture_default();
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (flags.name.empty()) flags.name = HostName();
  if (absl::Status s = rpc::SetUpLogging(flags.log_format, flags.log_level); !s.ok()) {
    std::fprintf(stderr, "paceline-shard: %s\n", std::string(s.message()).c_str());
    return kUsageError;
  }
  return flags;
}

// The signals that end the process. Blocked in the thread that calls this and in all it starts from then on;
// they come to whoever waits for them.
sigset_t BlockEndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return set;
}

// host:port into `path`, whole or not at all: readers wait for the file to appear.
absl::Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string part = absl::StrCat(path, ".part");
  std::error_code error;
  {
    std::ofstream file(part);
    file << address << '\n';
    if (!file.flush()) return absl::UnavailableError(absl::StrCat("--port-file: cannot write ", part));
  }
  std::filesystem::rename(part, path, error);
  return error ? absl::UnavailableError(absl::StrCat("--port-file: ", path, ": ", error.message()))
               : absl::OkStatus();
}

absl::string_view HostOf(absl::string_view address) {
  return address.substr(0, address.rfind(':'));
}

bool IsWildcard(absl::string_view address) {
  const absl::string_view host = HostOf(address);
  return host == "0.0.0.0" || host == "[::]" || host.empty();
}

// Where others reach what listens on `bound`.
absl::StatusOr<std::string> Advertised(const Flags& flags, const std::string& bound) {
  if (!flags.advertise.empty()) return flags.advertise;
  if (!IsWildcard(bound)) return bound;
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen ", flags.listen, " is no address that others reach; give --advertise HOST:PORT as well"));
}

// The shard as its page sees it. The page owns the shard's counters and so outlives it: at the end the shard
// is hidden first.
class OnPage {
 public:
  explicit OnPage(Shard& shard) : shard_(&shard) {}
  void Show(metrics::Families& families) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (shard_ != nullptr) ShowShard(families, *shard_);
  }
  // Waits for a scrape that is under way.
  void Hide() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    shard_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  Shard* shard_ ABSL_GUARDED_BY(mutex_);
};

// Everything of the process, in the order of use; it ends in the opposite one.
class Process {
 public:
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Flags& flags, Membership::Superseded end) {
    ABSL_ASSIGN_OR_RETURN(std::unique_ptr<metrics::Exposer> page,
                          metrics::Exposer::Start(flags.metrics_listen));
    std::unique_ptr<Process> process(new Process(flags, std::move(page)));
    if (absl::Status s = process->Serve(flags, std::move(end)); !s.ok()) return s;
    return process;
  }

  ~Process() {
    membership_.reset();
    server_.reset();
    on_page_->Hide();
  }

 private:
  Process(const Flags& flags, std::unique_ptr<metrics::Exposer> page)
      : page_(std::move(page)),
        probe_(*page_),
        shard_({.name = flags.name, .executors = flags.threads, .memory_budget_bytes = flags.memory_budget},
               clock_, probe_),
        on_page_(std::make_shared<OnPage>(shard_)) {
    page_->Collect([shown = on_page_](metrics::Families& families) { shown->Show(families); });
  }

  absl::Status Serve(const Flags& flags, Membership::Superseded end) {
    ABSL_ASSIGN_OR_RETURN(server_, Server::Start(shard_, flags.listen, flags.threads));
    ABSL_ASSIGN_OR_RETURN(const std::string address, Advertised(flags, server_->address()));
    if (!flags.port_file.empty()) {
      if (absl::Status s = WritePortFile(flags.port_file, server_->address()); !s.ok()) return s;
    }
    const v1::JoinClusterRequest join = JoinRequest(flags, address);
    spdlog::info("shard serves name={} address={} metrics={} threads={} memory_budget_bytes={} version={}",
                 flags.name, address, join.metrics_address(), flags.threads, flags.memory_budget, kVersion);
    membership_ = std::make_unique<Membership>(shard_, flags.coordinator, join, std::move(end));
    return absl::OkStatus();
  }

  v1::JoinClusterRequest JoinRequest(const Flags& flags, const std::string& address) const {
    const std::string& metrics = page_->address();
    v1::JoinClusterRequest join;
    join.set_feature_level(kFeatureLevel);
    join.set_name(flags.name);
    join.set_address(address);
    join.set_nonce(std::max<uint64_t>(1, world::SystemRandom().Next()));
    join.set_zone(flags.zone);
    join.set_metrics_address(
        IsWildcard(metrics) ? absl::StrCat(HostOf(address), metrics.substr(metrics.rfind(':'))) : metrics);
    return join;
  }

  const world::RealClock clock_;
  std::unique_ptr<metrics::Exposer> page_;
  MetricsProbe probe_;
  Shard shard_;
  std::shared_ptr<OnPage> on_page_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Membership> membership_;
};

int Run(const Flags& flags) {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t end_signals = BlockEndSignals();
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
  process->reset();
  spdlog::info("shard has ended");
  return superseded ? 1 : 0;
}

}  // namespace
}  // namespace paceline::shard

int main(int argc, char** argv) {
  using namespace paceline::shard;  // this file's own
  const std::variant<Flags, int> parsed = Parse(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return Run(std::get<Flags>(parsed));
}
