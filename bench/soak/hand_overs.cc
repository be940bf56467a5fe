#include "bench/soak/hand_overs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/result.h"
#include "bench/soak/load.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/data_folder.h"

namespace paceline::bench {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kSettle = absl::Milliseconds(500);
constexpr absl::Duration kInSyncTimeout = absl::Minutes(2);

// Of each round, in seconds.
struct Waits {
  std::vector<double> quiet, hand_over, restart;
  std::vector<double> took;  // the hand-over itself
  uint64_t segments = 0;
};

class Rounds {
 public:
  Rounds(RealCluster& cluster, Load& load) : cluster_(cluster), load_(load) {}

  absl::Status One(const std::string& shard) {
    ABSL_RETURN_IF_ERROR(cluster_.AwaitInSync(kInSyncTimeout));
    ABSL_RETURN_IF_ERROR(cluster_.Pause(kSettle));
    (void)load_.TakeLongest();
    ABSL_RETURN_IF_ERROR(cluster_.Pause(kSettle));
    waits_.quiet.push_back(Longest());
    ABSL_RETURN_IF_ERROR(HandOver(shard));
    ABSL_RETURN_IF_ERROR(cluster_.Pause(kSettle));
    waits_.hand_over.push_back(Longest());
    ABSL_RETURN_IF_ERROR(cluster_.StopShard(shard));
    ABSL_RETURN_IF_ERROR(cluster_.Restart(shard));
    ABSL_RETURN_IF_ERROR(cluster_.AwaitInSync(kInSyncTimeout));
    waits_.restart.push_back(Longest());
    return absl::OkStatus();
  }
  const Waits& waits() const { return waits_; }

 private:
  double Longest() { return absl::ToDoubleSeconds(load_.TakeLongest()); }

  absl::Status HandOver(const std::string& shard) {
    const absl::Time began = world::MonotonicNow();
    v1::HandOverShardRequest request;
    request.set_shard(shard);
    ABSL_ASSIGN_OR_RETURN(
        const v1::HandOverShardReply reply,
        tool::Coordinator(cluster_.address()).Ask(&v1::Coordinator::Stub::HandOverShard, request, kTimeout));
    waits_.took.push_back(absl::ToDoubleSeconds(world::MonotonicNow() - began));
    waits_.segments += reply.handed_over();
    return absl::OkStatus();
  }

  RealCluster& cluster_;
  Load& load_;
  Waits waits_;
};

SoakOutcome OutcomeOf(const SoakOptions& options, const Waits& waits) {
  std::vector<double> added;
  for (size_t i = 0; i < waits.quiet.size(); ++i) {
    added.push_back(std::max(0.0, waits.hand_over[i] - waits.quiet[i]));
  }
  SoakOutcome outcome;
  outcome.ok = true;
  outcome.json = {{"shards", options.shards},
                  {"replicas", options.replicas},
                  {"workers", options.workers},
                  {"rounds", waits.quiet.size()},
                  {"segments", waits.segments},
                  {"hand_over_seconds", waits.took},
                  {"quiet_wait_seconds", waits.quiet},
                  {"hand_over_wait_seconds", waits.hand_over},
                  {"restart_wait_seconds", waits.restart},
                  {"added_wait_seconds_median", Median(added)}};
  outcome.text = absl::StrFormat(
      "%d hand-overs of %d segments, %.3f s each (medians, as all that follow)\n"
      "longest clock of any of %d workers: %.3f s in peace, %.3f s at a hand-over, %.3f s at the restart "
      "after it\n"
      "added by a hand-over: %.3f s\n",
      waits.quiet.size(), waits.segments, Median(waits.took), options.workers, Median(waits.quiet),
      Median(waits.hand_over), Median(waits.restart), Median(added));
  return outcome;
}

}  // namespace

absl::StatusOr<SoakOutcome> HandOvers(const SoakOptions& options) {
  if (options.replicas == 0 || options.replicas >= options.shards) {
    return absl::InvalidArgumentError(absl::StrCat("--replicas: ", options.replicas, "; expected 1 to ",
                                                   options.shards - 1, ", one less than --shards"));
  }
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto data, tool::DataFolder::Open(options.folder));
  ABSL_ASSIGN_OR_RETURN(const auto cluster, RealCluster::Start(*supervisor, {.folder = data->path(),
                                                                             .shards = options.shards,
                                                                             .replicas = options.replicas}));
  ABSL_ASSIGN_OR_RETURN(const auto load, Load::Start(cluster->address(), options.workers, options.rate));
  Rounds rounds(*cluster, *load);
  for (int round = 0; round < options.rounds; ++round) {
    const std::vector<std::string> shards = cluster->shards();
    ABSL_RETURN_IF_ERROR(rounds.One(shards[static_cast<size_t>(round) % shards.size()]));
  }
  ABSL_RETURN_IF_ERROR(load->Stop());
  ABSL_RETURN_IF_ERROR(cluster->EndServers());
  return OutcomeOf(options, rounds.waits());
}

}  // namespace paceline::bench
