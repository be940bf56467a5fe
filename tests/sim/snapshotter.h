#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_snapshots.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// Takes snapshots of jobs while they train, through all faults, makes jobs of some, which may replace those
// it made before, and deletes others. When everything else is over it takes one more and restores it: that
// must succeed.
class Snapshotter {
 public:
  Snapshotter(World& world, SimCoordinator& coordinator, SnapshotShare& share, uint32_t operations);

  void Begin();
  // Before any worker starts: makes a job of this snapshot from before.
  void RestoreFirst(const std::string& name);
  // The last snapshot it took; empty: none was possible.
  const std::string& last() const { return last_; }
  // A job was made of a snapshot.
  std::function<void(const std::string& job)> on_restored = [](const std::string&) {};
  // The users are gone, and no more faults come.
  void Stop();
  bool done() const { return stage_ == Stage::kDone; }
  std::string Describe() const { return "snapshots: " + doing_; }

 private:
  enum class Stage : uint8_t { kTraining, kStopped, kLast, kRestoring, kDone };
  using Ended = std::function<void(const absl::Status&)>;

  void Later(absl::Duration least, absl::Duration most);
  void Next();
  void TakeOne();
  void RestoreOne();
  void DeleteOne();
  void TakeLast();
  void RestoreLast(const v1::RestoreSnapshotRequest& request);
  void Create(const v1::CreateSnapshotRequest& request, absl::Duration timeout, Ended ended);
  // `replace`: the job that has the name now goes.
  v1::RestoreSnapshotRequest RequestOf(const std::string& snapshot, uint64_t restored, bool replace);
  // Loses some answers that it is restored, and asks again.
  void Restore(const v1::RestoreSnapshotRequest& request, absl::Duration timeout, Ended ended);
  // The answers to one request are all the same.
  void JudgeRestored(const absl::StatusOr<v1::RestoreSnapshotReply>& reply);
  void OnEnded(const absl::Status& status);
  void Say(const std::string& what);

  bool Chance(double p) { return world::Chance(share_.random(), p); }
  uint64_t Below(uint64_t n) { return world::Uniform(share_.random(), n); }

  World& world_;
  SimCoordinator& coordinator_;
  SnapshotShare& share_;
  Host host_{.name = "snapshots"};
  SimCoordinatorApi api_;
  uint32_t operations_;
  Stage stage_ = Stage::kTraining;
  bool idle_ = true;
  std::string doing_ = "nothing yet";
  std::vector<std::string> taken_;                 // as far as it was told
  uint64_t restored_ = 0;                          // number of job names given out
  std::optional<v1::RestoreSnapshotReply> first_;  // answer to the request under way that was lost
  std::string last_;
};

}  // namespace paceline::sim
