#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/shard/shard.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_snapshots.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A clock that runs a little faster or slower than true time.
class DriftingClock final : public world::Clock {
 public:
  DriftingClock(const Scheduler& scheduler, double rate)
      : scheduler_(scheduler), rate_(rate), began_(scheduler.Now()) {}
  absl::Time Now() const override { return began_ + (scheduler_.Now() - began_) * rate_; }

 private:
  const Scheduler& scheduler_;
  const double rate_;
  const absl::Time began_;
};

// A shard's process: the real shard, and beside it what keeps its place in the cluster. It may be killed and
// started again: with nothing in memory, as another incarnation.
class SimShard final : private shard::Probe, private shard::Peers {
 public:
  // `disk`: what is acknowledged is on it. `share`: where snapshots are; nullptr: there are none.
  SimShard(World& world, SimCoordinator& coordinator, uint32_t index, bool disk = false,
           SnapshotShare* share = nullptr);
  ~SimShard() override;

  // Joins the cluster and goes on beating, with what is on its disk.
  void Start();
  // As by SIGKILL, or with the machine's power. Returns how many batches its disk has lost.
  size_t Kill(bool power = false);

  bool up() const { return host_.up; }
  shard::Shard& shard() { return *shard_; }
  Host& host() { return host_; }
  const ring::Member& self() const { return self_; }
  const std::string& address() const { return address_; }
  // nullptr: there are none in this cluster.
  SimDisk* disk() { return disk_.get(); }
  // A wish to go on without a replica may be on its way to the coordinator.
  bool MayBeDropping() const { return world_.Now() < dropping_until_; }
  // It may be about to be named primary, alone, in place of one that was silent.
  bool MayBeTakingOver() const { return world_.Now() < taking_over_until_; }
  // A push frame was handled: whatever counts now is checked.
  void OnPushHandled();
  // What it takes for held by every member, as of now.
  void NoteCommitted();
  // Visits the segments this shard is primary of; or all.
  void ForEachPrimary(const std::function<void(log::Primary&)>& visit);
  void ForEachHost(const std::function<void(shard::SegmentHost&)>& visit);

 private:
  class ToShards;

  std::unique_ptr<shard::Shard> Make(shard::Disk* disk = nullptr, shard::DiskContents contents = {});
  // False: the disk cannot be read; the process has ended, and is started again.
  bool Load(uint64_t start);

  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) override;
  void Followed(const log::Segment& segment, const log::Record& record) override;
  void Installed(const log::Segment& segment) override;
  world::Dialer& dialer() override;
  void ChangeConfigs(v1::ChangeConfigsRequest request,
                     std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) override;
  void Join(uint64_t start);
  // The process was told to end.
  void StartAgain();
  void Beat(uint64_t start);
  void FetchCatalogue(uint64_t start);
  void OnTime(uint64_t start);
  bool Is(uint64_t start) const { return start == starts_ && host_.up; }

  World& world_;
  SimCoordinator& coordinator_;
  const uint32_t index_;
  const std::string address_;
  Host host_;
  ring::Member self_;
  uint64_t nonce_ = 0;
  uint64_t starts_ = 0;
  absl::Time dropping_until_ = absl::InfinitePast();
  absl::Time taking_over_until_ = absl::InfinitePast();
  DriftingClock clock_;
  std::unique_ptr<ToShards> dialer_;
  std::unique_ptr<SimDisk> disk_;  // null: there is none
  std::unique_ptr<SimDiskWriter> writer_;
  std::vector<std::unique_ptr<SimDiskWriter>> dead_writers_;
  std::map<SegmentId, Lsn> promised_;               // what the disk had for certain when the process died
  std::map<SegmentId, log::LogPosition> restored_;  // what this start found
  SnapshotShare* const share_;
  std::vector<std::unique_ptr<SimSnapshotRunner>> runners_;  // the last one is alive
  std::unique_ptr<shard::Shard> shard_;
  std::vector<std::unique_ptr<shard::Shard>> dead_;  // what streams still refer to
};

// What every shard of a simulated cluster is started with: little, so that bounds are met.
shard::ShardOptions OptionsOf(uint32_t index, bool disk = false);

}  // namespace paceline::sim
