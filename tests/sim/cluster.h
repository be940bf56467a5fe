#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/calm.h"
#include "tests/sim/elastic.h"
#include "tests/sim/operator.h"
#include "tests/sim/plan.h"
#include "tests/sim/promptness.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/snapshotter.h"
#include "tests/sim/stranger.h"
#include "tests/sim/users.h"
#include "tests/sim/wire_watch.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// The result of a run.
struct Outcome {
  std::vector<Violation> violations;
  Marks marks;
  std::map<std::string, uint64_t> faults;  // those that took effect, by kind
  uint64_t hash = 0;
  uint64_t steps = 0;
  uint64_t parts = 0;
  uint64_t parts_acked = 0;
  Clock clocks = 0;     // the smallest min clock at the end
  absl::Duration took;  // in virtual time
};

// One cluster, from the start of the first shard to the end of the last worker. One thread, virtual time;
// everything follows from the plan.
class Cluster {
 public:
  explicit Cluster(const Plan& plan);
  ~Cluster();

  Outcome Run();
  // Reports to `trace` what happens. Call it before Run.
  void Watch(std::function<void(const std::string&)> trace) { world_.trace = std::move(trace); }

 private:
  void Begin();
  void BeginUsers();
  void BeginHeirs();
  // Two workers train on in a job that was made of a snapshot.
  void WorkIn(const std::string& job);
  // Another cluster with the same ring has left a snapshot: its name, or an empty string.
  std::string LeaveSnapshot();
  void Strike(FaultKind kind);
  // True: the fault took effect.
  bool TryStrike(FaultKind kind);
  bool Break(bool by_server);
  bool Clog();
  bool PauseShard();
  bool KillCoordinator();
  void StartCoordinatorLater();
  bool PauseCoordinator();
  bool FailStore();
  bool KillClient();
  bool PauseClient();
  bool KillShard();
  bool TerminateShard();
  bool TerminateCoordinator();
  bool DamageDisk();
  // The coordinator grants the next hand-over that is asked for, and both primaries hear of it late.
  bool LoseNextSwap();
  void OnWish(const SimShard& from, const v1::ConfigWish& wish);
  // Keeps a wish to add a replica, and stops that replica's answers to its primary, so that the primary asks
  // it out again; then the wish arrives a second time.
  void RepeatLate(SimShard& from, const v1::ChangeConfigsRequest& request, const v1::ConfigWish& wish);
  void DeliverLate(const v1::ChangeConfigsRequest& request);
  // Changes the rates of the clocks, again and again.
  void Slew();
  // Kills these shards at once; each comes back in its own time. True: at least one was up.
  bool Kill(const std::vector<SimShard*>& shards, bool power);
  // Whether a kill takes the machine's power as well.
  bool PowerGoes();
  bool KillMembers();
  bool KillAll();
  // Kills a shard when its disk has unsynced data; counts if anything is lost.
  void ForgetfulDisk();
  // Finds segments of which no disk has anything, which is a violation.
  void LookForLosses();
  // Counts when a step meets the fault.
  void StrikeDisk(FaultKind kind);
  // If no shard has ended before, ends one now and tries again.
  bool AgeDisk(int tried = 0);
  bool AgeStore();
  // Cuts count when a message meets them.
  void CutShards(FaultKind kind);
  void CutCoordinator(FaultKind kind);
  void CutClients();
  void Cut(FaultKind kind, const std::vector<Partitions::Way>& ways, absl::Duration lasts);
  void Count(FaultKind kind);
  bool HandOver();
  // For every segment of the shard, another member holds everything that is committed.
  bool CanDoWithout(const SimShard& shard);
  bool SpoilCalls();
  Worker* AnyWorkerUp();

  void InSync();
  void Prompt();
  // -- the calm end (calm_end.cc) --
  // Others work where nothing fails; one shard hands over, another one dies, and one of the users.
  void EndCalmly();
  // Runs until `done`, which must become true within this time.
  bool Within(absl::Duration most, const std::string& what, const std::function<bool()>& done);
  void RunFor(absl::Duration duration);
  // What keeps the cluster from being as it should be; empty: nothing.
  // `idle`: nobody works, and all that was written is everywhere.
  std::string Ails(bool idle);
  std::string Ails(const v1::SegmentConfig& config, SegmentId segment, bool idle);
  SimShard* StartOf(const v1::Member& member);
  std::vector<SegmentId> PrimaryOf(const SimShard& shard);
  void Visit(uint32_t visitors);
  void HandOverCalmly();
  void KillCalmly();
  void LoseVisitor();
  // `before`: the map when the primary of these segments died.
  void CheckSpread(const v1::Map& before, const std::vector<SegmentId>& taken);
  bool WorkersDone() const;
  bool ReadersDone() const;
  // Runs until `done`. Progress: `done` must become true in time after the last fault.
  void RunUntil(const std::function<bool()>& done);
  void CheckQuiet();
  // Counts what was trained twice, once the coordinator is up.
  void CheckWork();
  void NoOverlap();
  Lsn HeldBy(shard::SegmentHost& host) const;
  // Checks the snapshots that are in the share now.
  void CheckSnapshots();
  std::string WhoIsLeft();
  // Segments that have too few replicas, as the coordinator sees it.
  size_t UnderReplicated();
  // Traces the state of every segment, to analyse a violation.
  void TraceSegments();

  const Plan plan_;
  World world_;
  const std::unique_ptr<SnapshotShare> share_;  // null: there are no snapshots
  WireWatch watch_;
  SimCoordinator coordinator_;
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Reader>> readers_;
  Operator operator_;
  Elastic elastic_;
  Stranger stranger_;
  Promptness promptness_;
  Calm calm_;
  world::SplitMix64 calmly_;                  // the randomness of the calm end
  std::vector<Worker*> visitors_;             // of the calm end
  std::unique_ptr<Snapshotter> snapshotter_;  // null: there are no snapshots
  std::map<std::string, uint64_t> faults_;
  int swaps_to_lose_ = 0;
  int adds_to_repeat_ = 0;
  std::optional<v1::ChangeConfigsRequest> kept_add_;  // with one wish
  bool damaged_ = false;
  std::string left_;           // a snapshot from before the cluster started
  absl::Duration users_wait_;  // until the users begin
  absl::Time started_;
  absl::Time last_fault_;  // its effect is over by this time
};

}  // namespace paceline::sim
