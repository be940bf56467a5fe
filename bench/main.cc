// paceline-bench: what a cluster does, each figure beside the machine's own limit measured in the same run.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/consistency/consistency.h"
#include "bench/elastic.h"
#include "bench/filters.h"
#include "bench/near.h"
#include "bench/p3.h"
#include "bench/peers/client_process.h"
#include "bench/peers/machine_systems.h"
#include "bench/peers/meters.h"
#include "bench/peers/peers.h"
#include "bench/peers/several.h"
#include "bench/replicas.h"
#include "bench/restart.h"
#include "bench/rules.h"
#include "bench/size.h"
#include "bench/skew.h"
#include "bench/soak/commands.h"
#include "bench/workloads.h"
#include "libs/base/version.h"
#include "paceline/process.h"

namespace {

using paceline::bench::Result;
using paceline::bench::Setting;

struct Workload {
  const char* name;
  const char* what;
  absl::StatusOr<std::vector<Result>> (*run)(const Setting& setting);
  bool own_cluster = false;
  void (*print)(const std::vector<Result>& results) = nullptr;  // null: a line for each
};

// Dense, Sparse and Latency, and beside them shared memory if the cluster has a socket folder.
absl::StatusOr<std::vector<Result>> Dense(const Setting& setting) {
  return paceline::bench::WithNear(paceline::bench::Dense(setting), setting, paceline::bench::DenseNear);
}
absl::StatusOr<std::vector<Result>> Sparse(const Setting& setting) {
  return paceline::bench::WithNear(paceline::bench::Sparse(setting), setting, paceline::bench::SparseNear);
}
absl::StatusOr<std::vector<Result>> Latency(const Setting& setting) {
  return paceline::bench::WithNear(paceline::bench::Latency(setting), setting, paceline::bench::LatencyNear);
}

constexpr Workload kWorkloads[] = {
    {"dense", "64 MB of a ranged table, pushed and pulled whole", Dense},
    {"sparse", "batches of 1,000 rows of 16 values, of a million", Sparse},
    {"zipf", "the same with keys drawn by Zipf's law: few rows have most of the requests",
     paceline::bench::Zipfian},
    {"mixed", "the same with pushes and pulls at once", paceline::bench::Mixed},
    {"latency", "one row, one request outstanding", Latency},
    {"cached", "rows that the client has cached; push and pull in one", paceline::bench::Cached},
    {"lr", "an epoch of logistic regression: 102,400 examples of 32 of a million features",
     paceline::bench::LogisticRegression},
    {"memory", "what a million rows of 16 values take, and how much of it the budget counts",
     paceline::bench::Memory},
    {"snapshots", "pulls in an open loop while snapshots are taken; the cluster needs --snapshot-dir",
     paceline::bench::WithSnapshots},
    {"rules", "update rules written as expressions, beside the same ones built in; without a cluster",
     paceline::bench::Rules, /*own_cluster=*/true},
    {"size", "what decisions cost as clusters grow, to 1,000 shards of 65,536 segments; without a cluster",
     paceline::bench::Size, /*own_cluster=*/true},
    {"replicas", "the sparse workload with 0, 1 and 2 replicas; starts clusters of its own",
     paceline::bench::WithReplicas, /*own_cluster=*/true},
    {"filters", "filters of the link on rows that are pushed and pulled again and again; likewise",
     paceline::bench::Filters, /*own_cluster=*/true, paceline::bench::PrintFilters},
    {"disks", "pushes with disks written behind and with durable acknowledgements; likewise",
     paceline::bench::WithDisks, /*own_cluster=*/true},
    {"skew",
     "how even shards become that are asked by Zipf's law, as segments move by load; starts a cluster of its "
     "own if "
     "no --coordinator is given",
     paceline::bench::Skew, /*own_cluster=*/true},
    {"restart", "a shard with gigabytes on its disk is killed: until it serves them again; likewise",
     paceline::bench::Restart, /*own_cluster=*/true},
    {"elastic",
     "a counting job while its cluster goes from 3 shards to 6 and back, and what a worker that joins costs "
     "the others; likewise; takes about 12 minutes on two cores",
     paceline::bench::Elastic, /*own_cluster=*/true},
    {"consistency",
     "what the papers on consistency models show, of factorisation and topics with slow workers; likewise",
     paceline::bench::ConsistencyPictures, /*own_cluster=*/true},
    {"p3",
     "a network with a fat last layer on a limited link: slices and priorities beside whole layers; likewise",
     paceline::bench::Priorities, /*own_cluster=*/true},
    {"peers", "this project beside ps-lite, Redis, raw TCP and memcpy, in turns; starts all of them",
     paceline::bench::peers::Peers, /*own_cluster=*/true, paceline::bench::peers::PrintPeers},
    {"several", "two shards beside one, and 2, 4 and 8 clients beside fewer, on this machine; starts them",
     paceline::bench::peers::Several, /*own_cluster=*/true},
};

int Fail(const std::string& message) {
  std::fprintf(stderr, "paceline-bench: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  paceline::TuneProcess();
  CLI::App app{
      "Measures a cluster through the SDK. Start one with: paceline up --shards 1 -- paceline-bench dense",
      "paceline-bench"};
  app.fallthrough();  // the subcommands inherit it
  app.set_version_flag("--version", "paceline-bench " + std::string(paceline::kVersion));
  Setting setting;
  std::string json;
  app.add_option("--coordinator", setting.coordinator, "host:port of the coordinator")
      ->envname("PACELINE_COORDINATOR");
  app.add_option("--json", json, "write the list of results to this file");
  app.add_option("--socket-dir", setting.socket_dir,
                 "the cluster's folder of sockets: dense, sparse and latency are measured over shared memory "
                 "too")
      ->envname("PACELINE_SOCKET_DIR");
  app.add_option("--record", setting.record,
                 "write the client's history to this file, for `paceline verify`");
  app.add_flag(
      "--quick", setting.quick,
      "fewer rounds, and of peers and several less work: a minute at most; consistency: in eight minutes");
  app.add_flag("--smallest", setting.smallest, "only show that it runs: the figures mean nothing");
  for (const Workload& workload : kWorkloads) app.add_subcommand(workload.name, workload.what);
  app.get_subcommand("lr")
      ->add_option("--table", setting.tables, "kinds of table to run it on")
      ->check(CLI::IsMember({"sparse", "ranged"}))
      ->capture_default_str();
  for (const char* name : {"restart", "snapshots"}) {
    app.get_subcommand(name)
        ->add_option("--gigabytes", setting.gigabytes, "of rows")
        ->check(CLI::Range(0.01, 1000.0))
        ->capture_default_str();
  }
  app.get_subcommand("skew")
      ->add_option("--seconds", setting.seconds, "for so long")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.get_subcommand("elastic")
      ->add_option(
          "--only", setting.only,
          "moves: only the cluster that grows and shrinks, about 10 minutes; newcomer: only the worker "
          "that joins, about 2")
      ->check(CLI::IsMember({"moves", "newcomer"}));
  app.get_subcommand("consistency")
      ->add_option("--plot", setting.plot, "draw the results to this PNG; needs --json, and matplotlib");
  app.get_subcommand("consistency")
      ->add_option("--only", setting.only, "only this picture, and no other")
      ->check(CLI::IsMember({"staleness", "convergence", "delays", "auto"}));
  app.get_subcommand("peers")->add_option(
      "--only", setting.only,
      "measure only the data whose name contains this, as dense, 'rows of 1 value' or logistic");
  app.get_subcommand("peers")->add_flag("--near", setting.near,
                                        "this project over shared memory as well: half as long again");
  app.get_subcommand("peers")
      ->add_option("--ps-lite", setting.ps_lite,
                   "ps-lite's sources, which are built with the driver in ~/.cache/paceline (needs "
                   "libzmq3-dev); without it its "
                   "results are skipped")
      ->check(CLI::ExistingDirectory.description(""))
      ->type_name("DIR");
  bool check = false;
  for (const char* name : {"peers", "several"}) {
    app.get_subcommand(name)->add_flag("--check", check,
                                       "exit with 3 if a goal is missed, or was not measured against");
  }
  std::string limits_control;
  CLI::App* limits_server =
      app.add_subcommand("peers-limits", "")->group("");  // what peers starts: not for people
  limits_server->add_option("--control", limits_control)->required();
  std::vector<std::string> client_arguments;
  CLI::App* client_process = app.add_subcommand("peers-client", "")->group("");  // what several starts
  client_process->add_option("arguments", client_arguments)->required();
  paceline::bench::SoakCommands soak;
  soak.AddTo(app);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  if (!setting.plot.empty() && json.empty()) return Fail("--plot draws what --json FILE has: give both");
  if (client_process->parsed()) return paceline::bench::peers::ServePeersClient(client_arguments);
  if (limits_server->parsed()) return paceline::bench::peers::ServePeersLimits(limits_control);
  if (paceline::bench::peers::HasRealTimePriority()) {
    std::fprintf(stderr,
                 "paceline-bench: at a real-time priority, which no program has by itself: do not compare "
                 "these figures with those of a normal one\n");
  }
  if (const auto exit_code = soak.Run(setting.coordinator, setting.record, json)) return *exit_code;
  unsetenv("PACELINE_SOCKET_DIR");  // from here on whoever measures says by what a client's streams go
  for (const Workload& workload : kWorkloads) {
    if (!app.got_subcommand(workload.name)) continue;
    if (setting.coordinator.empty() && !workload.own_cluster) {
      return Fail("--coordinator, or PACELINE_COORDINATOR, is required");
    }
    const absl::StatusOr<std::vector<Result>> results = workload.run(setting);
    if (!results.ok()) return Fail(std::string(results.status().message()));
    if (workload.print != nullptr) {
      workload.print(*results);
    } else {
      for (const Result& result : *results) paceline::bench::Print(result);
    }
    if (!json.empty() && !(std::ofstream(json) << paceline::bench::ToJson(*results).dump(2) << "\n")) {
      return Fail("cannot write " + json);
    }
    if (!setting.plot.empty()) {
      const absl::Status drawn = paceline::bench::DrawConsistency(json, setting.plot);
      if (!drawn.ok()) return Fail(std::string(drawn.message()));
    }
    if (check && !paceline::bench::AllPass(*results)) return 3;
  }
  return 0;
}
