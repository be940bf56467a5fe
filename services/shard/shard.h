#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "libs/base/feature_level.h"
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

class Snapshots;

// A shard: the segments it serves and the streams it serves them on. Everything but sockets, so that the
// simulator runs it whole. Thread-safe.
//
// A frame is taken apart on the thread that brings it, and its parts are handed to the executors of their
// segments, in one task an executor; with nobody else at an executor the same thread goes on and applies
// them.
class Shard {
 public:
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
  // Makes the folder nobody's; `done` runs once that is synced, from any thread. Whatever the shard still
  // does is not written any more. As ChangeSession.
  void EmptyFolder(const v1::EmptyFolderRequest& request,
                   std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done);
  // OK if the disk, if there is one, is this shard's or nobody's; kFailedPrecondition says whose it is.
  absl::Status CheckDisk(ShardId self, uint64_t cluster) const;
  void OnWantCatalogue(Context::WantCatalogue want) { context_.OnWantCatalogue(std::move(want)); }
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
  void AdoptSegment(log::Segment state, std::shared_ptr<const ring::SegmentMap> map, Context::Done done);

  // -- streams --
  std::shared_ptr<world::AcceptedStream> NewPushStream();
  std::shared_ptr<world::AcceptedStream> NewPushPullStream();
  std::shared_ptr<world::AcceptedStream> NewPullStream();
  std::shared_ptr<world::AcceptedStream> NewReplicaStream();

  // A coordinator that leads has answered what this shard asked at `asked`, on its clock.
  void HeardCoordinator(absl::Time asked) {
    if (links_ != nullptr) links_->HeardCoordinator(asked);
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

  // Answers all parked reads UNAVAILABLE; new frames are refused UNAVAILABLE from now on.
  void Stop();

  // What its streams, links and snapshots work with.
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
  // Why what a coordinator asks that goes by the map of this version is not done: it is late, or its store is
  // an older copy. Empty: it is done; 0 says nothing.
  std::string WhyTooOld(uint64_t map_version) const;
  // Runs visit(host, entry) for the entries of a request that name a segment, and done after the last.
  template <class Entry>
  void ForEntries(const google::protobuf::RepeatedPtrField<Entry>& entries,
                  std::function<void(SegmentHost&, const Entry&, size_t index)> visit, Context::Done done);
  // Writes down what no segment tells, and a coordinator's store must not be behind.
  void NoteKnown(const View& view);
  // Makes the segments of the first map, with what the disk had of them.
  void MakeHosts(const ring::SegmentMap& map);
  // Tells every segment of the map, if the shard knows who it is.
  void Configure(const std::shared_ptr<const View>& view);

  Context context_;
  std::shared_ptr<SharedBudget> budget_;
  std::shared_ptr<ReplicaLinks> links_;   // null: without peers
  DiskContents contents_;                 // its segments are handed on with the first map
  std::atomic<bool> disk_marked_{false};  // the disk knows whose it is
  Surroundings around_;
  std::unique_ptr<Snapshots> snapshots_;
  StreamWatch watch_;
};

}  // namespace paceline::shard
