#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/shard/control/joining.h"
#include "services/shard/shard.h"
#include "tests/sim/drifting_clock.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_snapshots.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A shard's process: the real shard, with its membership in the cluster. It may be killed and started again,
// with nothing in memory, as another incarnation.
class SimShard final : private shard::Probe, private shard::Peers {
 public:
  // `durable`: an acknowledged part is on its disk. `share`: the directory of snapshots; nullptr: none.
  SimShard(World& world, SimCoordinator& coordinator, uint32_t index, bool disk = false, bool durable = false,
           SnapshotShare* share = nullptr);
  ~SimShard() override;

  // Joins the cluster with the data of its disk, and sends beats.
  void Start();
  // While the shard is down, its folder becomes an older copy, from before its last start; false: there is
  // none. Once the coordinator has refused that copy, the newest is back.
  bool AgeDisk();
  // Kills it as by SIGKILL, or with the machine's power. Returns the number of batches that its disk has
  // lost.
  size_t Kill(bool power = false);
  // As by SIGTERM: it asks for leave, repeatedly until `may_end`, and ends in good order.
  void Terminate(std::function<bool()> may_end);
  bool leaving() const { return may_end_ != nullptr; }
  // It has drained, and goes for good: with its disk, unless that is to be kept and was marked as emptied. It
  // is started no more until StartNew, which begins another shard under the name.
  void TakeAway(bool keep_disk);
  void StartNew();
  // A bit on its disk has flipped: the next start finds it, says so and ends, until the disk is another one.
  void DamageDisk() { disk_->Damage(); }

  // Called with each wish on its way to the coordinator, and the request that carries it.
  std::function<void(const v1::ChangeConfigsRequest&, const v1::ConfigWish&)> on_wish = [](auto&, auto&) {};

  uint64_t map_version() const;  // of the one it has; 0: none. REQUIRES: it is up
  bool up() const { return host_.up; }
  // True: it is up and has joined, and an earlier start of it has left a copy of its folder, which AgeDisk
  // can use.
  bool HasEndedBefore() const {
    return up() && self_.incarnation != Incarnation() && disk_ != nullptr && disk_->has_copy();
  }
  shard::Shard& shard() { return *shard_; }
  Host& host() { return host_; }
  const ring::Member& self() const { return self_; }
  const std::string& address() const { return address_; }
  DriftingClock& clock() { return clock_; }
  // nullptr: this cluster has no disks.
  SimDisk* disk() { return disk_.get(); }
  // True: a wish to drop a replica may be on its way to the coordinator.
  bool MayBeDropping() const { return world_.Now() < dropping_until_; }
  // True: the shard may be about to be named primary, alone, in place of one that was silent.
  bool MayBeTakingOver() const { return world_.Now() < taking_over_until_; }
  // A push frame was handled: checks everything that counts now.
  void OnPushHandled();
  // Notes the position that it now considers held by every member.
  void NoteCommitted();
  // Visits the segments of which this shard is primary; or all.
  void ForEachPrimary(const std::function<void(log::Primary&)>& visit);
  void ForEachHost(const std::function<void(shard::SegmentHost&)>& visit);

 private:
  std::unique_ptr<shard::Shard> Make(shard::Disk* disk = nullptr, shard::DiskContents contents = {});
  // False: the disk cannot be read; the process has ended, and is started again.
  bool Load(uint64_t start);
  void Leave(uint64_t start);
  void EndInOrder();
  // Notes what the disk would have confirmed if the process ended now.
  void NotePromises(bool all_written);

  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) override;
  void Followed(const log::Segment& segment, const log::Record& record) override;
  void Installed(const log::Segment& segment) override;
  void Answered(const log::Segment& segment, Epoch epoch) override;
  world::Dialer& dialer() override;
  void ChangeConfigs(v1::ChangeConfigsRequest request,
                     std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) override;
  void Join(uint64_t start);
  void OnJoinReply(uint64_t start, const absl::StatusOr<v1::JoinClusterReply>& reply);
  void OnJoined(uint64_t start, const v1::JoinClusterReply& reply);
  // The process was told to end.
  void StartAgain();
  void Beat(uint64_t start);
  void FetchCatalogue(uint64_t start);
  void OnTime(uint64_t start);
  bool Is(uint64_t start) const { return start == starts_ && host_.up; }

  World& world_;
  SimCoordinator& coordinator_;
  const uint32_t index_;
  const bool durable_;
  const std::string address_;       // for clients
  const std::string peer_address_;  // for other shards and the coordinator
  Host host_;
  ring::Member self_;
  uint64_t nonce_ = 0;
  std::optional<shard::Joining> joining_;
  v1::JoinClusterRequest found_;  // a start's findings in its folder
  uint64_t starts_ = 0;
  bool taken_away_ = false;
  absl::Time dropping_until_ = absl::InfinitePast();
  absl::Time taking_over_until_ = absl::InfinitePast();
  DriftingClock clock_;
  std::function<bool()> may_end_;  // not empty: it was told to end
  HostDialer dialer_;
  std::unique_ptr<SimDisk> disk_;               // null: there is none
  std::vector<std::unique_ptr<SimDisk>> gone_;  // dead writers still refer to these
  std::unique_ptr<SimDiskWriter> writer_;
  std::vector<std::unique_ptr<SimDiskWriter>> dead_writers_;
  std::map<SegmentId, Lsn> promised_;  // positions that the disk had confirmed when the process died
  std::map<SegmentId, log::LogPosition> restored_;  // what this start found
  SnapshotShare* const share_;
  std::vector<std::unique_ptr<SimSnapshotRunner>> runners_;  // the last one is alive
  std::unique_ptr<shard::Shard> shard_;
  std::vector<std::unique_ptr<shard::Shard>> dead_;  // streams still refer to these
};

// The options of every shard of a simulated cluster: small, so that runs reach the bounds.
shard::ShardOptions OptionsOf(uint32_t index, bool durable = false);

}  // namespace paceline::sim
