#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/store_age.h"
#include "services/coordinator/metadata/superseding.h"

namespace paceline::coordinator {

// The shards: who they are, whether they live, what they were told, and the map that says what they serve.
//
// A shard is known by its name; each start of its process is a new incarnation. The first map is made when as
// many shards have joined as the cluster is to begin with; a shard that joins later owns nothing. A segment
// belongs to one incarnation of its primary: what it holds is in that process's memory. Once all its members'
// shards have been started again a segment is to be *recovered* from their disks (recoveries.h), or *lost* if
// they have none, unless no session was ever opened, so that it held nothing.
class Membership {
 public:
  explicit Membership(Context& context);

  // kFailedPrecondition: a newer start of this shard has joined, or its folder is another one's, an older
  // copy of its own, or the copy of one: this process must end, and nothing has changed. kAborted: it is to
  // ask again at once. kUnavailable: try again.
  absl::StatusOr<v1::JoinClusterReply> Join(const v1::JoinClusterRequest& request);
  // kFailedPrecondition: not from the newest start of a shard of this cluster; its sender must end.
  absl::StatusOr<v1::BeatReply> Beat(const v1::BeatRequest& request);

  // The feature level that all shards speak, by the map; 0: there is no map yet.
  uint32_t Level() const;
  // Forgets a shard that is a member of nothing. kFailedPrecondition: it is of some segment. kAborted: its
  // folder is being marked as emptied, ask again.
  absl::StatusOr<v1::RemoveShardReply> Remove(const v1::RemoveShardRequest& request);

  // Commits the map in which `shard` is primary of `segment`. Moves no data: see CoordinatorCore.
  absl::Status MoveSegment(uint32_t segment, uint32_t shard);
  // Commits `map`, made from the one there is, as its next version, with `changes`. As Context::Commit.
  absl::Status CommitMap(v1::Map map, Changes changes = {});

  // Makes the first map if it is due, and tells the map and the tables to shards that are behind. Call after
  // whatever may have changed either, and at NextTry().
  void Pump();
  absl::Time NextTry() const;
  // Silence counts from now.
  void ListenAfresh();
  // What a shard said it has; sends it what is newer.
  void HasVersions(uint32_t shard, std::optional<uint64_t> map, std::optional<uint64_t> catalogue);
  // The same, as it answered a call of this coordinator: with newer versions than the store's it shows that
  // this one is behind.
  void HasAnswered(uint32_t shard, uint64_t map, std::optional<uint64_t> catalogue);

  // The shard has been heard of recently.
  bool Alive(uint32_t shard) const;
  size_t AliveCount() const;
  // The member is the newest start of its shard.
  bool Current(const v1::Member& member) const;
  // Current, and its shard is alive.
  bool Alive(const v1::Member& member) const { return Current(member) && Alive(member.shard()); }
  absl::Duration Silence(uint32_t shard) const;
  // The last beat of the shard's newest start that this coordinator has received; nullptr: none yet.
  const v1::BeatRequest* LastBeat(uint32_t shard) const;
  // Nothing that it acknowledges can be kept by it at this time: it acknowledges what is on its disk, which
  // is full or fails.
  bool DiskUseless(uint32_t shard) const;
  // The primaries of the map that have not beaten since this coordinator started, by name. Empty: all have.
  std::vector<std::string> Unreported() const;

  // Per shard that is primary of them, the segments whose members have all been started again.
  const std::map<uint32_t, std::set<uint32_t>>& lost() const { return lost_; }
  bool IsLost(uint32_t segment) const { return lost_segments_.contains(segment); }
  // The segments whose primary has been started again and is proved to have ended, that start having beaten,
  // and that have a replica that has not been started again. (Of others a replica takes over once it is
  // without beacons.)
  const std::set<uint32_t>& to_take_over() const { return to_take_over_; }
  // The segments whose members have all been started again, some of them with a disk.
  const std::set<uint32_t>& to_recover() const { return to_recover_; }
  // All disks were asked, and none has any of these segments: they are lost, unless one is started with
  // another.
  void OnNothingFound(const std::set<uint32_t>& segments);
  // OK: numbers of sessions, tables and jobs, and versions, may be given out. kUnavailable: not yet, since
  // shards that may know of later ones have not been heard of by this coordinator; it names them. Or never,
  // since the store is behind.
  absl::Status CheckMayGiveIds() const;
  // As StoreAge::Check.
  absl::Status CheckKnown(const v1::Known& known, const v1::Member& from);
  // OK, or that the store is an older copy: nothing is to be served.
  const absl::Status& store_behind() const { return age_.behind(); }
  // OK, or kDataLoss saying what is gone and what to do.
  absl::Status CheckNothingLost() const;
  // What is wrong with the shards, one sentence each, with what to do.
  std::vector<std::string> Problems() const;

 private:
  // What a restart of the coordinator forgets of a shard.
  struct Soft {
    absl::Time heard;
    bool met = false;  // it has beaten, joined, or may join: what it knows is in the store
    std::optional<v1::BeatRequest> last;
    uint64_t map_version = 0;
    uint64_t catalogue_version = 0;
    bool installing = false;
    absl::Time next_install = absl::InfinitePast();
    int failures = 0;  // installs in a row; a problem from the second since the first beat
    std::string failure;
  };

  absl::Status CheckJoin(const v1::JoinClusterRequest& request) const;
  absl::Status CheckLevel(const v1::JoinClusterRequest& request) const;
  absl::Status CheckNewest(const v1::JoinClusterRequest& request) const;
  // The folder, if it says anything, is the newest one of this shard.
  absl::Status CheckFolder(const v1::JoinClusterRequest& request);
  absl::Status CheckOwner(const v1::JoinClusterRequest& request);
  absl::Status CheckAge(const v1::DataFolder& folder, const ShardRecord& known);
  absl::Status Removed(uint32_t shard) const;
  v1::JoinClusterReply ReplyTo(const v1::JoinClusterRequest& request) const;
  // This coordinator has begun so lately that a shard that lives may not have been heard of.
  bool Listens() const;
  // Those that may know more than the store, and have not been heard of.
  std::vector<std::string> Unmet() const;
  // The term, once all were heard of that may know more than the store; 0 until then.
  uint64_t TermToTell() const;
  void NotePositions();
  void EmptyFolderOf(const ShardRecord& known);
  absl::Status Forget(uint32_t shard);
  // Adds the start that `record` is of to those that may still run, unless the request proves its end.
  void NoteUnproven(const v1::JoinClusterRequest& request, ShardRecord& record) const;
  // Takes numbers from `counters`.
  absl::StatusOr<ShardRecord> RecordFor(const v1::JoinClusterRequest& request,
                                        CountersRecord& counters) const;
  static absl::Status Stamp(const v1::DataFolder& folder, ShardRecord& record);
  absl::Status AddStart(const v1::JoinClusterRequest& request);
  // The level of the next map: all shards speak it, `joining` among them; at least that of this one.
  uint32_t LevelWith(const ShardRecord* joining) const;
  // The map with `shard` as it is now known; what it alone served is given to the new start if nothing can be
  // lost.
  v1::Map MapWith(const v1::ShardInfo& shard) const;
  void MakeFirstMap();
  void OnMap();
  void FindTakeovers();
  bool Behind(uint32_t shard, const Soft& soft) const;
  // As StoreAge::Check.
  absl::Status CheckCatalogue(uint64_t version, absl::string_view who);
  void Install(uint32_t shard);
  void OnInstalled(const v1::InstallRequest& request, const absl::StatusOr<v1::InstallReply>& reply);
  // Whether some member's newest start has a disk.
  bool MayHaveDisk(const v1::SegmentConfig& config) const;
  // Of some segment, by the map; whichever start of the shard that is.
  bool IsPrimary(uint32_t shard) const;
  // "of an older feature level than 2: …".
  std::string OlderShards() const;
  std::string LostText(uint32_t shard, const std::set<uint32_t>& segments) const;

  Context& context_;
  StoreAge age_;
  Superseding superseding_;
  uint64_t emptied_ = 0;  // nonce of the last start that has marked its folder so; 0: none
  const absl::Time began_;
  absl::Time next_positions_ = absl::InfinitePast();
  std::map<uint32_t, Soft> soft_;
  std::map<uint32_t, std::set<uint32_t>> lost_;
  std::set<uint32_t> lost_segments_;
  std::set<uint32_t> to_take_over_;
  std::set<uint32_t> to_recover_;
  std::set<uint32_t> nothing_found_;  // segments, by the disks of the shards' newest starts
};

}  // namespace paceline::coordinator
