#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "libs/base/feature_level.h"
#include "libs/base/mutex.h"
#include "libs/log/shard_side.h"
#include "libs/ring/segment_map.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/shard/context.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/probe.h"
#include "services/shard/replication/peers.h"
#include "services/shard/replication/replica_links.h"
#include "services/shard/replication/replication_state.h"
#include "services/shard/segment/segment_host.h"
#include "services/shard/snapshots/snapshot_runner.h"
#include "services/shard/streams/stream_watch.h"

namespace paceline::shard {

class SnapshotTasks;

// A shard: its segments and the streams that it serves them on. It has no sockets, so that the simulator runs
// it whole. Thread-safe.
//
// The thread that brings a frame takes it apart and hands the parts to the executors of their segments, in
// one task an executor. If an executor is idle the same thread goes on and applies them.
class Shard {
 public:
  // `clock`, `probe`, `peers` and `disk` must outlive the shard and its streams. Without peers no segment has
  // other members; without a disk nothing is written to one. `contents` is the
  // disk's at the start.
  Shard(ShardOptions options, const world::Clock& clock, Probe& probe, Peers* peers = nullptr,
        Disk* disk = nullptr, DiskContents contents = {});
  ~Shard();

  // Tells the shard which member of which cluster it is; 0: not known. Before that it keeps maps and serves
  // nothing.
  // `level`: the feature level that the coordinator spoke with it.
  void Identify(ring::Member self, uint64_t cluster = 0, uint32_t level = kFeatureLevel);
  // A member of this cluster, a shard of level 1 or the coordinator, may not know that peers have an address
  // of their own.
  bool PeersAmongClients() const;
  // The newest coordinator that the shard has heard of leads in this term.
  void NoteTerm(uint64_t term);
  // Removes the folder's owner; `done` runs once that is synced, from any thread. The shard writes nothing
  // afterwards. Answers as MakeChange does.
  void EmptyFolder(const v1::EmptyFolderRequest& request,
                   std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done);
  // OK if the disk, if there is one, belongs to this shard or to none; kFailedPrecondition names the owner.
  absl::Status CheckDisk(ShardId self, uint64_t cluster) const;
  void OnWantCatalogue(Context::WantCatalogue want) { context_.OnWantCatalogue(std::move(want)); }
  // `runner` writes and reads the files of snapshots; without one the shard refuses them. Call before
  // anything else. REQUIRES: the runner has stopped when the shard ends.
  void KeepSnapshots(SnapshotRunner& runner);
  // nullptr: see KeepSnapshots.
  const SnapshotTasks* snapshots() const { return snapshots_.get(); }

  // -- ShardControl --
  // All calls: kFailedPrecondition if the caller means another member or another cluster, kUnavailable if the
  // shard does not know yet which one it is. Install takes what is newer. INVALID_ARGUMENT if the map or the
  // tables break their rules; nothing changes then.
  absl::StatusOr<v1::InstallReply> Install(const v1::InstallRequest& request);
  // `done` runs once, maybe before this returns, with the segments whose record is committed now. If the
  // caller goes by an older map than this shard, or is known to be deposed, the shard changes nothing and
  // names no segment. INVALID_ARGUMENT if the change breaks its rules.
  void MakeChange(const v1::Change& change, std::function<void(absl::StatusOr<v1::ChangeReply>)> done);

  // The three of them concern single segments; as MakeChange.
  void Fence(const v1::FenceRequest& request, std::function<void(absl::StatusOr<v1::FenceReply>)> done);
  void Recruit(const v1::RecruitRequest& request, std::function<void(absl::StatusOr<v1::RecruitReply>)> done);
  void HandOver(const v1::HandOverRequest& request,
                std::function<void(absl::StatusOr<v1::HandOverReply>)> done);

  // -- streams --
  std::shared_ptr<world::AcceptedStream> NewPushStream();
  std::shared_ptr<world::AcceptedStream> NewPushPullStream();
  std::shared_ptr<world::AcceptedStream> NewPullStream();
  std::shared_ptr<world::AcceptedStream> NewSubscribeStream();
  std::shared_ptr<world::AcceptedStream> NewReplicaStream();

  // A coordinator that leads has answered what this shard asked at `asked`, on its clock.
  void HeardCoordinator(absl::Time asked) {
    if (links_ != nullptr) links_->HeardCoordinator(asked);
  }

  // Ends reads whose deadline has come, sends beacons, notices silence. Call every few tens of milliseconds.
  void OnTime();

  // Gathers the state of the shard for a beat; what clients ask of it is in every second one. `done` runs
  // once, maybe before this returns.
  void Describe(std::function<void(v1::BeatRequest)> done);
  // The same, and more, for the shard's own page of metrics.
  struct State {
    v1::BeatRequest beat;
    ReplicationState replication;
    v1::ShardLoad load;
    // How many clocks each session of a worker is behind the fastest of its job, in one segment at one time;
    // the largest of all segments.
    std::map<uint64_t, uint64_t> behind;
  };
  void Survey(std::function<void(State)> done);

  // The memory of rows; what else counts in the budget takes from it too. May outlive the shard.
  std::shared_ptr<log::RowMemory> memory() const;
  uint64_t bytes_held() const;    // of it, by now
  uint64_t rows_updated() const;  // since this start
  // Updates of aggregated tables that wait for their clock.
  uint64_t staged_bytes() const;

  // Answers all parked reads UNAVAILABLE; new frames are refused UNAVAILABLE from now on.
  void Stop();

  // For streams, links and snapshots; for tests and metrics.
  Context& context() { return context_; }
  const Context& context() const { return context_; }
  std::shared_ptr<const View> view() const { return context_.view(); }
  const ShardOptions& options() const { return context_.options(); }

 private:
  class SharedBudget;

  // OK if a caller that states this means this shard.
  absl::Status CheckMeant(uint64_t cluster, bool has_target, const v1::Member& target) const;
  template <class Request>
  absl::Status CheckMeant(const Request& request) const {
    return CheckMeant(request.cluster(), request.has_target(), request.target());
  }
  // Tells why the shard refuses a call of a coordinator that goes by the map of this version: the call is
  // late, or the store is an older copy. Empty: it obeys. 0: the caller names no version.
  std::string WhyTooOld(uint64_t map_version) const;
  // The same, also if another coordinator leads by now.
  std::string WhyNotObeyed(const v1::Change& change) const;
  // Runs visit(host, entry) for the entries of a request that name a segment, and done after the last.
  template <class Entry>
  void ForEntries(const google::protobuf::RepeatedPtrField<Entry>& entries,
                  std::function<void(SegmentHost&, const Entry&, size_t index)> visit, Context::Done done);
  // Publishes what Identify and Install change, once the folder and the hosts are ready for it. `change` is
  // called twice.
  std::shared_ptr<const View> PublishOwned(const std::function<void(View&)>& change)
      ABSL_LOCKS_EXCLUDED(folder_mutex_);
  // Writes to the folder whose it is, once that is known.
  void NoteOwner(const View& view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(folder_mutex_);
  // Writes to the folder what no segment records; a coordinator's store must not be behind it.
  void NoteKnown() ABSL_LOCKS_EXCLUDED(folder_mutex_);
  // Marks the folder as emptied, after the last write of any other kind, and serves nothing from here on.
  void GiveUpFolder(std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done)
      ABSL_LOCKS_EXCLUDED(folder_mutex_);
  // Makes the ring of the first map, with what the disk has of its segments.
  void MakeHosts(const ring::SegmentMap& map);
  // Tells every segment of the map, if the shard knows who it is.
  void Configure(const std::shared_ptr<const View>& view);

  Context context_;
  std::shared_ptr<SharedBudget> budget_;
  std::shared_ptr<ReplicaLinks> links_;   // null: without peers
  DiskContents contents_;                 // its segments are handed on with the first map
  std::atomic<bool> disk_marked_{false};  // the disk knows whose it is
  std::atomic<bool> emptying_{false};     // a call that asks for it is under way
  Mutex folder_mutex_;                    // of its notes: none comes after the mark that it is emptied
  Surroundings around_;
  std::unique_ptr<SnapshotTasks> snapshots_;
  std::atomic<uint64_t> described_{0};  // beats
  StreamWatch watch_;
};

}  // namespace paceline::shard
