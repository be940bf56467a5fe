#include "bench/soak/commands.h"

#include <cstdio>
#include <fstream>
#include <map>

namespace paceline::bench {
namespace {

void AddCluster(CLI::App& command, SoakOptions& options) {
  command.add_option("--shards", options.shards, "shards of the cluster")->check(CLI::Range(1, 64));
  command
      .add_option("--replicas", options.replicas,
                  "copies of each segment besides the first; without, shards are stopped and not killed")
      ->check(CLI::Range(0, 8));
  command.add_option("--workers", options.workers, "worker processes")->check(CLI::Range(1, 64));
  command.add_option("--rate", options.rate, "pushes a second of each worker")->check(CLI::Range(0.1, 1e5));
  command.add_option("--seed", options.seed, "of what is killed when, and of what is pushed");
  command.add_option(
      "--folder", options.folder,
      "where logs, journals and history files go (default: a temporary one, kept if something is "
      "wrong)");
}

}  // namespace

void SoakCommands::AddTo(CLI::App& app) {
  soak_ = app.add_subcommand(
      "soak", "processes are killed while workers count: nothing may be lost, doubled or read too old");
  AddCluster(*soak_, options_);
  soak_->add_option("--seconds", options_.seconds, "how long")->check(CLI::PositiveNumber);
  const std::map<std::string, std::vector<Target>> modes = {
      {"none", {}},
      {"one-at-a-time", {Target::kShard, Target::kCoordinator}},
      {"any", {Target::kShard, Target::kCoordinator, Target::kWorker, Target::kLink}}};
  soak_
      ->add_option_function<std::string>(
          "--kill", [this, modes](const std::string& mode) { options_.targets = modes.at(mode); },
          "none; one-at-a-time, shards and the coordinator; any, workers and links to shards and the "
          "coordinator too")
      ->check(CLI::IsMember(modes))
      ->type_name("MODE");
  const std::map<std::string, Target> targets = {{"shard", Target::kShard},
                                                 {"coordinator", Target::kCoordinator},
                                                 {"worker", Target::kWorker},
                                                 {"link", Target::kLink},
                                                 {"all", Target::kAll}};
  soak_
      ->add_option(
          "--targets", options_.targets,
          "instead: what, of shard, coordinator, worker, link and all (shards and coordinator at once)")
      ->transform(CLI::CheckedTransformer(targets).description(""))
      ->delimiter(',')
      ->type_name("LIST")
      ->excludes("--kill");
  soak_
      ->add_option("--model", options_.model,
                   "of the counting table: bsp, ssp or essp (staleness 2), ssp:auto (up to 16), or asp")
      ->check(CLI::IsMember({"bsp", "ssp", "ssp:auto", "essp", "asp"}).description(""))
      ->capture_default_str();
  soak_
      ->add_option("--acks", options_.acks,
                   "when an update is acknowledged: replicated; or durable: shards have disks")
      ->check(CLI::IsMember({"replicated", "durable"}).description(""))
      ->capture_default_str();
  soak_->add_flag("--lose-power", options_.lose_power,
                  "whoever is killed loses what it had not synced; with --acks durable");
  recovery_ = app.add_subcommand(
      "recovery", "time from the kill of a shard to acknowledged pushes on each of its segments");
  AddCluster(*recovery_, options_);
  recovery_->add_option("--kills", options_.kills, "how many")->check(CLI::PositiveNumber);

  hand_overs_ = app.add_subcommand(
      "handover", "what a planned restart of a shard costs the worst worker: hand-over, then stop and start");
  AddCluster(*hand_overs_, options_);
  hand_overs_->add_option("--rounds", options_.rounds, "how many")->check(CLI::PositiveNumber);

  soak_worker_ = app.add_subcommand("soak-worker", "")->group("");  // what soak starts: not for people
  soak_worker_->add_option("--journal", worker_.journal)->required();
  soak_worker_->add_option("--workers", worker_.workers);
  soak_worker_->add_option("--rate", worker_.rate);
  soak_worker_->add_option("--seed", worker_.seed);
  soak_worker_->add_option("--model", worker_.model);

  soak_relay_ = app.add_subcommand("soak-relay", "")->group("");
  soak_relay_->add_option("--listen", relay_.listen)->required();
  soak_relay_->add_option("--to-file", relay_.to_file)->required();
  soak_relay_->add_option("--port-file", relay_.port_file)->required();
}

std::optional<int> SoakCommands::Run(const std::string& coordinator, const std::string& record,
                                     const std::string& json) {
  if (soak_->parsed()) return Report(Soak(options_), json);
  if (recovery_->parsed()) return Report(Recovery(options_), json);
  if (hand_overs_->parsed()) return Report(HandOvers(options_), json);
  if (soak_relay_->parsed()) return RunRelay(relay_);
  if (!soak_worker_->parsed()) return std::nullopt;
  worker_.coordinator = coordinator;
  worker_.record = record;
  return RunSoakWorker(worker_);
}

int SoakCommands::Report(const absl::StatusOr<SoakOutcome>& outcome, const std::string& json) const {
  if (!outcome.ok()) {
    std::fprintf(stderr, "soak: %s\n", std::string(outcome.status().message()).c_str());
    return 1;
  }
  std::fputs(outcome->text.c_str(), stdout);
  if (!json.empty() && !(std::ofstream(json) << outcome->json.dump(2) << "\n")) {
    std::fprintf(stderr, "soak: cannot write %s\n", json.c_str());
    return 1;
  }
  return outcome->ok ? 0 : 1;
}

}  // namespace paceline::bench
