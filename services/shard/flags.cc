#include "services/shard/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/version.h"
#include "libs/rpc/coordinators.h"
#include "libs/rpc/logging.h"

namespace paceline::shard {
namespace {

constexpr int kUsageError = 2;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "shard";
}

// As 512MiB or 4GiB. `text`: the default.
CLI::Option* AddSize(CLI::App& app, const char* name, uint64_t& size, const char* text, const char* what) {
  return app.add_option(name, size, what)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->type_name("SIZE")
      ->default_str(text);
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--coordinator", flags.coordinator,
                 "HOST:PORT of the cluster's coordinator; several are separated by commas")
      ->required();
  app.add_option("--listen", flags.listen, "HOST:PORT to serve clients on; port 0 picks a free one");
  app.add_option("--advertise", flags.advertise,
                 "HOST:PORT at which clients reach this shard (default: the address that --listen bound)");
  app.add_option("--peer-listen", flags.peer_listen,
                 "HOST:PORT to serve other shards and the coordinator on; nobody else should reach it "
                 "(default: a free port on the host of --listen)");
  app.add_option(
      "--peer-advertise", flags.peer_advertise,
      "HOST:PORT at which they reach this shard (default: the port that --peer-listen bound, on the host of "
      "--advertise)");
  app.add_flag("--reflection", flags.reflection,
               "Serve gRPC reflection, for tools that ask which methods there are");
  app.add_option("--name", flags.name,
                 "The shard's identity in the cluster; keep it over restarts (default: the host's name)");
  app.add_option("--zone", flags.zone,
                 "Failure domain; the copies of a segment are spread over as many zones as possible");
  AddSize(app, "--memory-budget", flags.memory_budget, "4GiB",
          "Memory that rows may take, as 512MiB or 4GiB; a push beyond it is refused OVER_BUDGET");
  AddSize(app, "--staging-budget", flags.staging_budget, "256MiB",
          "Memory that updates of aggregated tables may take while they wait for the end of their clock, "
          "beside that of rows; give twice the bytes pushed here in a clock: beyond it pushes are refused");
  AddSize(app, "--reply-budget", flags.reply_budget, "512MiB",
          "Memory that replies to all clients may take until they are read; beyond it reads are refused, and "
          "clients that do not read are disconnected");
  AddSize(
      app, "--stream-budget", flags.stream_budget, "64MiB",
      "Bytes that all clients together may push ahead of the updates' application; each is granted its "
      "share, at most 16 MiB. With --data-dir as much may wait for the disk: give no more than 64MiB then")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40).description(""));
  AddSize(app, "--move-rate", flags.move_rate, "0",
          "Bytes a second, as 50MiB, that this shard sends of the segments that others get from it, all "
          "together; 0: as fast as they take them");
  app.add_option("--threads", flags.threads,
                 "Threads that carry streams of clients and apply what they bring, and as many for streams "
                 "of other shards")
      ->check(CLI::Range(1, 1024));
  app.add_option("--metrics-listen", flags.metrics_listen, "HOST:PORT of the /metrics page");
  app.add_option(
         "--metrics-cluster", flags.metrics_cluster,
         "Name of the cluster: all metrics get the labels paceline_cluster, with it, and shard, with the "
         "shard's --name. Dashboards and alerts tell clusters and shards apart by them")
      ->type_name("NAME");
  app.add_option("--port-file", flags.port_file, "Write the host:port that --listen bound to this file");
  app.add_option("--peer-port-file", flags.peer_port_file,
                 "Write the host:port that --peer-listen bound to this file");
  app.add_option(
         "--record", flags.record,
         "Write the history of every record applied here to a new file of this name (or FILE.1, FILE.2 "
         "... where it exists), for `paceline verify`")
      ->envname("PACELINE_RECORD")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--leave-timeout",
         [&flags](const std::string& text) {
           if (absl::ParseDuration(text, &flags.leave_timeout) && flags.leave_timeout >= absl::ZeroDuration())
             return;
           throw CLI::ValidationError("--leave-timeout", text + "; expected a duration as 10s, or 0");
         },
         "After SIGTERM the shard first hands over its primaries and leaves its replicas, for at most this "
         "long, so that nobody waits for it. With 0, or after SIGINT, it ends at once")
      ->default_str("10s")
      ->type_name("DURATION");
  app.add_option(
         "--data-dir", flags.data_dir,
         "Folder in which this shard keeps its rows and logs over restarts; each shard has its own (default: "
         "memory only)")
      ->type_name("DIR");
  app.add_option(
         "--acks", flags.acks,
         "When to acknowledge: replicated, once every replica has the update in memory; durable, once "
         "every replica has it on disk, which needs --data-dir. The same for all shards")
      ->check(CLI::IsMember({"replicated", "durable"}));
  app.add_option("--snapshot-dir", flags.snapshot_dir,
                 "Directory in which job snapshots are kept; the same for all shards and coordinators, on a "
                 "volume that all of them see (default: no snapshots)")
      ->type_name("DIR");
  app.add_option(
         "--socket-dir", flags.socket_dir,
         "Folder, at most some 80 characters, for sockets at which clients and other shards of this host "
         "and user get streams over shared memory; clients name it in PACELINE_SOCKET_DIR. It is made "
         "if it is missing (default: TCP only)")
      ->envname("PACELINE_SOCKET_DIR")
      ->type_name("DIR");
  app.add_option("--direct-streams", flags.direct_streams,
                 "Whether streams over TCP may go without gRPC, from clients and other shards at the same "
                 "addresses, and to other shards (1 or 0)")
      ->envname("PACELINE_DIRECT_STREAMS");
  app.add_option("--log-format", flags.log_format, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn or error");
  app.set_version_flag("--version", absl::StrCat("paceline-shard ", std::string(kVersion), " (feature level ",
                                                 kFeatureLevel, ")"));
}

}  // namespace

std::variant<Flags, int> ParseFlags(int argc, char** argv) {
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
  if (flags.acks == "durable" && flags.data_dir.empty()) {
    std::fprintf(stderr, "paceline-shard: --acks durable needs --data-dir: a folder on a disk\n");
    return kUsageError;
  }
  absl::Status s = rpc::SetUpLogging(flags.log_format, flags.log_level);
  if (s.ok()) s = rpc::CheckCoordinators(flags.coordinator);
  if (!s.ok()) {
    std::fprintf(stderr, "paceline-shard: %s\n", std::string(s.message()).c_str());
    return kUsageError;
  }
  return flags;
}

}  // namespace paceline::shard
