// paceline-coordinator: flags, logs, signals.
#include <signal.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "libs/base/version.h"
#include "libs/metrics/exposer.h"
#include "libs/rpc/logging.h"
#include "services/coordinator/log_probe.h"
#include "services/coordinator/server.h"
#include "services/coordinator/store/rocksdb_store.h"

namespace paceline::coordinator {
namespace {

struct Flags {
  std::string listen = "127.0.0.1:7070";
  std::string metrics_listen = "127.0.0.1:0";
  std::string port_file;
  std::string data_dir;
  std::string log_format = "text";
  std::string log_level = "info";
  double session_timeout = 10;
  double keep_alive = 1;
  Options options;
};

// host:port into `path`, whole or not at all: readers wait for the file to appear.
absl::Status WritePortFile(const std::string& path, const std::string& address) {
  if (path.empty()) return absl::OkStatus();
  const std::string part = path + ".part";
  std::error_code error;
  if (std::ofstream(part) << address << std::endl) std::filesystem::rename(part, path, error);
  if (error || !std::filesystem::exists(path)) {
    return absl::UnavailableError("cannot write --port-file " + path + "; check that its directory exists");
  }
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags, const sigset_t& signals) {
  auto store = OpenRocksDbStore(flags.data_dir);
  if (!store.ok()) return store.status();
  auto page = metrics::Exposer::Start(flags.metrics_listen);
  if (!page.ok()) return page.status();
  LogProbe probe(**page);
  auto server = Server::Start(flags.options, **store, probe, flags.listen);
  if (!server.ok()) return server.status();
  (*page)->Collect(
      [&server](metrics::Families& families) { ShowCoordinator(families, (*server)->gauges()); });
  if (absl::Status status = WritePortFile(flags.port_file, (*server)->address()); !status.ok()) return status;
  spdlog::info("serving address={} metrics={} data_dir={} shards_wanted={} version={}", (*server)->address(),
               (*page)->address(), flags.data_dir, flags.options.shards, std::string(kVersion));
  // Half a second at a time, to notice a newer coordinator on the same store.
  while (!(*server)->deposed()) {
    const timespec half_a_second{.tv_sec = 0, .tv_nsec = 500'000'000};
    const int signal = sigtimedwait(&signals, nullptr, &half_a_second);
    if (signal > 0) {
      spdlog::info("stopping signal={}", signal);
      break;
    }
  }
  const bool deposed = (*server)->deposed();
  page->reset();  // asks the server for numbers: goes first
  server->reset();
  if (deposed) return absl::AbortedError("another coordinator has taken over the store");
  spdlog::info("stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace paceline::coordinator

int main(int argc, char** argv) {
  using namespace paceline::coordinator;  // NOLINT: the program is the namespace's only user
  CLI::App app{"Paceline's coordinator: membership, the map, tables and sessions of a cluster."};
  app.set_version_flag("--version", std::string(paceline::kVersion));
  Flags flags;
  app.add_option("--listen", flags.listen, "host:port to serve on; port 0 picks a free one")
      ->capture_default_str();
  app.add_option("--port-file", flags.port_file, "write host:port here when serving");
  app.add_option("--data-dir", flags.data_dir, "directory of the metadata store; created if missing")
      ->required();
  app.add_option("--shards", flags.options.shards, "shards that must join before the first map is made")
      ->capture_default_str();
  app.add_option("--ring-bits", flags.options.ring_bits,
                 "the ring has 2^N segments; fixed when the cluster is created")
      ->capture_default_str();
  app.add_option("--session-timeout", flags.session_timeout,
                 "seconds after which a silent session is evicted")
      ->capture_default_str();
  app.add_option("--keep-alive", flags.keep_alive, "seconds between signs of life that clients are told")
      ->capture_default_str();
  app.add_option("--metrics-listen", flags.metrics_listen, "host:port of /metrics")->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text or json")->capture_default_str();
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn or error")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  flags.options.session_timeout = absl::Seconds(flags.session_timeout);
  flags.options.keep_alive = absl::Seconds(flags.keep_alive);

  absl::Status status = paceline::rpc::SetUpLogging(flags.log_format, flags.log_level);
  // Before any thread starts, so that none of them takes the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (status.ok()) status = Run(flags, signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "paceline-coordinator: %s\n", std::string(status.message()).c_str());
  return 1;
}
