#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/operator.h"
#include "tests/sim/plan.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/snapshotter.h"
#include "tests/sim/stranger.h"
#include "tests/sim/users.h"
#include "tests/sim/wire_watch.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// What a run came to.
struct Outcome {
  std::vector<Violation> violations;
  Marks marks;
  std::map<std::string, uint64_t> faults;  // that took effect, by kind
  uint64_t hash = 0;
  uint64_t steps = 0;
  uint64_t parts = 0;
  uint64_t parts_acked = 0;
  Clock clocks = 0;     // the smallest min clock at the end
  absl::Duration took;  // virtual
};

// One cluster, from the first shard to the last worker's end. One thread, virtual time; everything follows
// from the plan.
class Cluster {
 public:
  explicit Cluster(const Plan& plan);
  ~Cluster();

  Outcome Run();
  // Tells `trace` what happens. Before Run.
  void Watch(std::function<void(const std::string&)> trace) { world_.trace = std::move(trace); }

 private:
  void Begin();
  void BeginUsers();
  void BeginHeirs();
  // Two workers go on in a job that was made of a snapshot.
  void WorkIn(const std::string& job);
  // Another cluster with the same ring has left a snapshot; its name, or nothing.
  std::string LeaveSnapshot();
  void Strike(FaultKind kind);
  // True: it took effect.
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
  bool Move();
  bool MoveSegment(SegmentId segment);
  bool KillShard();
  bool TerminateShard();
  bool TerminateCoordinator();
  bool DamageDisk();
  // The next hand-over that is asked for is granted, and those it concerns hear of it late.
  bool LoseNextSwap();
  void OnWish(const SimShard& from, const v1::ConfigWish& wish);
  // A wish to add a replica is kept, and answers of that one reach its primary no more; so it is asked out
  // again, and then the wish comes a second time.
  void RepeatLate(SimShard& from, const v1::ChangeConfigsRequest& request, const v1::ConfigWish& wish);
  void DeliverLate(const v1::ChangeConfigsRequest& request);
  // Clocks change their rates, again and again.
  void Slew();
  // At once; each comes back in its own time. True: one at least was up.
  bool Kill(const std::vector<SimShard*>& shards, bool power);
  // A kill takes the machine's power along.
  bool PowerGoes();
  bool KillMembers();
  bool KillAll();
  // At a moment at which something is not synced; counts if anything is lost.
  void ForgetfulDisk();
  // Looks where no disk has anything of a segment, which is a violation.
  void LookForLosses();
  // Counts when a step meets it.
  void StrikeDisk(FaultKind kind);
  // If no shard has ended before one does so now, and it is tried again.
  bool AgeDisk(int tried = 0);
  bool AgeStore();
  // Cuts count when anything was to get through.
  void CutShards(FaultKind kind);
  void CutCoordinator(FaultKind kind);
  void CutClients();
  void Cut(FaultKind kind, const std::vector<Cuts::Way>& ways, absl::Duration lasts);
  void Count(FaultKind kind);
  bool HandOver();
  // Of every segment somebody else holds all that is committed.
  bool CanDoWithout(const SimShard& shard);
  bool SpoilCalls();
  Worker* AnyWorkerUp();

  void InSync();
  bool WorkersDone() const;
  bool ReadersDone() const;
  // Runs until `done`. Progress: that must come to pass in time after the last fault.
  void RunUntil(const std::function<bool()>& done);
  void CheckQuiet();
  void NoOverlap();
  Lsn HeldBy(shard::SegmentHost& host) const;
  // Of what is in the share now.
  void CheckSnapshots();
  std::string WhoIsLeft();
  // Segments that have fewer replicas than they should, as the coordinator sees it.
  size_t UnderReplicated();
  // How every segment stands, for whoever looks into a violation.
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
  Stranger stranger_;
  std::unique_ptr<Snapshotter> snapshotter_;  // null: there are no snapshots
  std::map<std::string, uint64_t> faults_;
  int swaps_to_lose_ = 0;
  int adds_to_repeat_ = 0;
  std::optional<v1::ChangeConfigsRequest> kept_add_;  // with one wish
  bool damaged_ = false;
  std::string left_;           // a snapshot that was there before
  absl::Duration users_wait_;  // until they begin
  absl::Time started_;
  absl::Time last_fault_;  // its effect is over by then
};

}  // namespace paceline::sim
