#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "libs/base/feature_level.h"
#include "libs/base/mutex.h"
#include "libs/ring/segment_map.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/shard/control/catalogue.h"
#include "services/shard/control/known_sessions.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/executor.h"
#include "services/shard/probe.h"
#include "services/shard/replication/peers.h"
#include "services/shard/replication/replica_links.h"
#include "services/shard/replication/replication_state.h"
#include "services/shard/segment/segment_host.h"
#include "services/shard/snapshots/snapshot_runner.h"
#include "services/shard/streams/held_back.h"
#include "services/shard/streams/reply_budget.h"
#include "services/shard/streams/stream_watch.h"

namespace paceline::shard {

class Snapshots;

struct ShardOptions {
  std::string name = "shard";
  uint64_t nonce = 0;  // of this start; 0: it says none
  int executors = 2;   // segments are dealt to them round robin; one a core is enough
  uint64_t memory_budget_bytes = uint64_t{4} << 30;  // of rows; a push beyond it is refused OVER_BUDGET
  // Of updates of aggregated tables that wait for their clock; a push beyond it is refused OVER_BUDGET.
  uint64_t staging_budget_bytes = uint64_t{256} << 20;
  uint64_t window_bytes = uint64_t{16} << 20;  // unreceived bytes a client may have under way on a stream
  uint64_t frame_bytes_max = uint64_t{8} << 20;
  uint64_t reply_bytes_max = uint64_t{64} << 20;         // replies waiting to be read, per pull stream
  uint64_t all_replies_bytes_max = uint64_t{512} << 20;  // of all streams
  absl::Duration pull_timeout_max = absl::Minutes(10);
  absl::Duration hello_timeout = absl::Seconds(10);   // a stream without a Hello for longer is ended
  absl::Duration unread_timeout = absl::Seconds(10);  // so is one whose replies are not read when many wait
  // What is acknowledged is on the disk of every member that is waited for. REQUIRES: a disk.
  bool durable = false;
  // When bases are written to the disk, if there is one.
  SegmentDisk::Pace disk_pace = {};
  // How much of a copy of a segment is under way to a shard that learns it.
  log::Replicas::ImagePace image_pace = {};
  // Starts a thread that goes on where others end their turn at an executor. False: no thread is started, and
  // whoever brings work runs the executor dry.
  bool helper_thread = false;
};

// A shard: the segments it serves and the streams it serves them on. Everything but sockets, so that the
// simulator runs it whole. Thread-safe.
//
// A frame is taken apart on the thread that brings it, and its parts are handed to the executors of their
// segments, in one task an executor; with nobody else at an executor the same thread goes on and applies
// them.
class Shard {
 public:
  using Visit = std::function<void(SegmentHost&)>;
  using Done = absl::AnyInvocable<void()>;
  // Asked when a frame names a newer list of tables than this shard has. False: the coordinator has no such
  // version either, as far as is known. May be called from any thread, also once just after it was replaced.
  using WantCatalogue = std::function<bool(CatalogueVersion)>;

  // `clock`, `probe`, `peers` and `disk` must outlive the shard and its streams. Without peers no segment has
  // other members; without a disk nothing is written to one. `contents` is what was found on it.
  Shard(ShardOptions options, const world::Clock& clock, Probe& probe, Peers* peers = nullptr,
        Disk* disk = nullptr, DiskContents contents = {});
  ~Shard();

  // Which member of which cluster this is; 0: not known. Until then maps are kept but nothing is served.
  // `level`: the feature level that the coordinator spoke with it.
  void Identify(ring::Member self, uint64_t cluster = 0, uint32_t level = kFeatureLevel);
  // Somebody who belongs to this cluster may not know that peers have an address of their own: a shard of
  // level 1, or the coordinator.
  bool PeersAmongClients() const;
  // In which term the coordinator leads that was last heard of.
  void NoteTerm(uint64_t term);
  // As Disk::Write. REQUIRES: there is a disk.
  void WriteToDisk(engine::Batch batch, Disk::Synced synced) {
    disk_->Write(std::move(batch), std::move(synced));
  }
  // Makes the folder nobody's; `done` runs once that is synced, from any thread. Whatever the shard still
  // does is not written any more. As ChangeSession.
  void EmptyFolder(const v1::EmptyFolderRequest& request,
                   std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done);
  // OK if the disk, if there is one, is this shard's or nobody's; kFailedPrecondition says whose it is.
  absl::Status CheckDisk(ShardId self, uint64_t cluster) const;
  void OnWantCatalogue(WantCatalogue want);
  // Where snapshots' files are written and read; without it those are refused. Before anything else. `runner`
  // runs nothing any more when the shard ends.
  void KeepSnapshots(SnapshotRunner& runner);
  // nullptr: see KeepSnapshots.
  const Snapshots* snapshots() const { return snapshots_.get(); }

  // -- ShardControl --
  // Both: kFailedPrecondition if another member or another cluster was meant, kUnavailable if it is not known
  // yet who this is. Takes what is newer. INVALID_ARGUMENT if the map or the tables break their rules;
  // nothing changes then.
  absl::StatusOr<v1::InstallReply> Install(const v1::InstallRequest& request);
  // `done` runs once, maybe before this returns, with the segments whose record is committed now. Nothing is
  // changed, and no segment named, if the caller goes by an older map than this shard.
  void ChangeSession(const v1::SessionChange& change,
                     std::function<void(absl::StatusOr<v1::SessionChangeReply>)> done);

  // Drops a table, changes its rates, or closes a job; as ChangeSession. INVALID_ARGUMENT if the change
  // breaks its rules.
  void ChangeJob(const v1::JobChange& change, std::function<void(absl::StatusOr<v1::JobChangeReply>)> done);

  // The three of them concern single segments; as ChangeSession.
  void Fence(const v1::FenceRequest& request, std::function<void(absl::StatusOr<v1::FenceReply>)> done);
  void Recruit(const v1::RecruitRequest& request, std::function<void(absl::StatusOr<v1::RecruitReply>)> done);
  void HandOver(const v1::HandOverRequest& request,
                std::function<void(absl::StatusOr<v1::HandOverReply>)> done);

  // -- planned moves in one step, for tests --
  // As SegmentHost's, on the segment's executor. REQUIRES: a map is installed. `done` runs once, maybe before
  // these return.
  void ReleaseSegment(SegmentId segment, std::shared_ptr<const ring::SegmentMap> map,
                      std::function<void(std::optional<log::Segment>)> done);
  void AdoptSegment(log::Segment state, std::shared_ptr<const ring::SegmentMap> map, Done done);

  // -- streams --
  std::shared_ptr<world::AcceptedStream> NewPushStream();
  std::shared_ptr<world::AcceptedStream> NewPushPullStream();
  std::shared_ptr<world::AcceptedStream> NewPullStream();
  std::shared_ptr<world::AcceptedStream> NewReplicaStream();

  // A coordinator that leads has answered what this shard asked at `asked`, on its clock.
  void HeardCoordinator(absl::Time asked) {
    if (links_ != nullptr) links_->HeardCoordinator(asked);
  }
  // As ReplicaLinks::Carry.
  void CarryWishes(v1::ChangeConfigsRequest request, std::function<void(v1::ChangeConfigsReply)> done) {
    if (links_ != nullptr) links_->Carry(std::move(request), std::move(done));
  }

  // Ends reads whose deadline has come, sends beacons, notices silence. Call every few tens of milliseconds.
  void OnTime();

  // How the shard is, for the coordinator and for people. `done` runs once, maybe before this returns.
  void Describe(std::function<void(v1::BeatRequest)> done);
  // The same with more of it, for its own page of metrics.
  struct State {
    v1::BeatRequest beat;
    ReplicationState replication;
  };
  void Survey(std::function<void(State)> done);

  uint64_t bytes_held() const;    // memory of rows
  uint64_t rows_updated() const;  // since this start
  // Updates of aggregated tables that wait for their clock.
  uint64_t staged_bytes() const;
  bool has_disk() const { return disk_ != nullptr; }
  // So much waits for the disk that clients are to go on at its pace: what has been worked on stays under
  // way.
  bool disk_slow() const { return disk_pending_bytes() > kDiskSlow; }
  // `frame` is destroyed when the disk is slow no more, or after a while. Any thread.
  void HoldBack(std::shared_ptr<const void> frame) { held_back_.Hold(std::move(frame), clock_.Now()); }
  uint64_t frames_held_back() const { return held_back_.held(); }
  // Bytes that were applied and are not on the disk yet.
  // nullopt: there is none.
  std::optional<Disk::Health> disk_health() const {
    return disk_ == nullptr ? std::nullopt : std::optional(disk_->health());
  }
  Disk::Done disk_done() const { return disk_ == nullptr ? Disk::Done() : disk_->done(); }
  uint64_t disk_pending_bytes() const { return disk_ == nullptr ? 0 : disk_->pending_bytes(); }

  // Answers all parked reads UNAVAILABLE; new frames are refused UNAVAILABLE from now on.
  void Stop();

  // -- for the streams --
  // A consistent view of what rarely changes.
  struct View {
    ring::Member self;
    uint64_t cluster = 0;                         // 0: not known
    uint32_t coordinators_level = kFeatureLevel;  // when this shard joined
    std::shared_ptr<const ring::SegmentMap> map;  // null before the first
    std::shared_ptr<const Catalogue> catalogue;
    bool stopping = false;
    bool emptied = false;  // the folder is nobody's any more
    uint64_t term = 0;     // 0: not known
  };
  std::shared_ptr<const View> view() const ABSL_LOCKS_EXCLUDED(mutex_);
  const ShardOptions& options() const { return options_; }
  const world::Clock& clock() const { return clock_; }
  Probe& probe() { return probe_; }
  size_t ExecutorOf(SegmentId segment) const { return segment.v % executors_.size(); }
  Executor& executor(size_t index) { return *executors_[index]; }
  size_t executor_count() const { return executors_.size(); }
  // REQUIRES: on the executor of the segment, and a map is installed that contains it.
  SegmentHost& host(SegmentId segment) { return *hosts_[segment.v]; }
  // Runs visit for every segment on its executor, and done after the last.
  void ForEachSegment(Visit visit, Done done);
  bool CatalogueWanted(CatalogueVersion version);
  const KnownSessions& known_sessions() const { return known_sessions_; }
  ReplyBudget& replies() { return *replies_; }
  const ReplyBudget& replies() const { return *replies_; }
  void CountPulled(uint64_t rows) { rows_pulled_.fetch_add(rows, std::memory_order_relaxed); }

 private:
  class SharedBudget;

  // OK if a caller that states this means this shard.
  absl::Status CheckMeant(uint64_t cluster, bool has_target, const v1::Member& target) const;
  // Why what a coordinator asks that goes by the map of this version is not done: it is late, or its store is
  // an older copy. Empty: it is done; 0 says nothing.
  std::string WhyTooOld(uint64_t map_version) const;
  // Changes a copy of the view and makes it the current one.
  std::shared_ptr<const View> Publish(const std::function<void(View&)>& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs visit(host, entry) for the entries of a request that name a segment, and done after the last.
  template <class Entry>
  void ForEntries(const google::protobuf::RepeatedPtrField<Entry>& entries,
                  std::function<void(SegmentHost&, const Entry&, size_t index)> visit, Done done);
  // Hands what a group of tasks has written to the disk.
  void WriteGroup(size_t executor);
  // Writes down what no segment tells, and a coordinator's store must not be behind.
  void NoteKnown(const View& view);
  // Makes the segments of the first map, with what the disk had of them.
  void MakeHosts(const ring::SegmentMap& map);
  // Tells every segment of the map, if the shard knows who it is.
  void Configure(const std::shared_ptr<const View>& view);

  const ShardOptions options_;
  const world::Clock& clock_;
  Probe& probe_;
  KnownSessions known_sessions_;
  std::shared_ptr<SharedBudget> budget_;
  std::shared_ptr<ReplicaLinks> links_;   // null: without peers
  Disk* const disk_;                      // null: nothing is kept on one
  DiskContents contents_;                 // its segments are handed on with the first map
  std::atomic<bool> disk_marked_{false};  // the disk knows whose it is
  Surroundings around_;
  std::unique_ptr<Snapshots> snapshots_;
  std::atomic<uint64_t> rows_pulled_{0};
  HeldBack held_back_;
  const std::shared_ptr<ReplyBudget> replies_;
  StreamWatch watch_;
  mutable Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  WantCatalogue want_catalogue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<engine::Batch>> batches_;  // of each executor, for the disk
  std::vector<std::unique_ptr<Executor>> executors_;
  // One a segment; sized once, by the first map, before any stream gets past its Hello.
  std::vector<std::unique_ptr<SegmentHost>> hosts_;
  std::unique_ptr<Helper> helper_;  // ends before what its tasks touch: last
};

}  // namespace paceline::shard
