#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/leadership/store_age.h"
#include "services/coordinator/metadata/members/superseding.h"

namespace paceline::coordinator {

// The shards: their identity, whether they are alive, which versions they have, and the map of what they
// serve.
//
// A shard is identified by its name; each start of its process is a new incarnation. The first map is made
// once the initial number of shards has joined; a shard that joins later owns nothing at first. A segment
// belongs to one incarnation of its primary, in whose memory its data is. Once the shards of all its members
// have been started again a segment must be *recovered* from their disks (recoveries.h), or is *lost* if they
// have none. Only if no session was ever opened nothing is lost, since the segment held nothing.
class Membership {
 public:
  explicit Membership(Context& context);

  // kFailedPrecondition: a newer start of this shard has joined; or its folder is another shard's, an older
  // copy of its own, or a copy of one in use. This process must end; nothing has changed. kAborted: ask again
  // at once. kUnavailable: try again.
  absl::StatusOr<v1::JoinClusterReply> Join(const v1::JoinClusterRequest& request);
  // kFailedPrecondition: not from the newest start of a shard of this cluster; the sender must end.
  absl::StatusOr<v1::BeatReply> Beat(const v1::BeatRequest& request);

  // The feature level that all shards speak, by the map; 0: there is no map yet.
  uint32_t Level() const;
  // kFailedPrecondition: some shard does not speak this level, to which `what` belongs; names both.
  absl::Status CheckSpoken(uint32_t level, absl::string_view what) const;
  // The changes up to this number were made before a segment that begins empty by the next map. 0: shards of
  // level 1 are left, which could not read the record of it.
  uint64_t ChangeFloor() const { return Level() < 2 ? 0 : context_.facts.counters().change(); }
  // Forgets a shard that is a member of no segment. kFailedPrecondition: it is a member of some segment.
  // kAborted: its folder is being marked as emptied; ask again.
  absl::StatusOr<v1::RemoveShardReply> Remove(const v1::RemoveShardRequest& request);
  // The steps of a removal: asks the shard to mark its folder as emptied; HasEmptied once it has; and takes
  // it off the list and the map, in which no segment may name it.
  void EmptyFolderOf(const ShardRecord& known);
  bool HasEmptied(uint32_t shard) const { return soft_.contains(shard) && soft_.at(shard).emptied; }
  absl::Status Forget(uint32_t shard);

  // Commits `map`, a copy of the present one with changes, as the next version, along with `changes`. As
  // Context::Commit.
  absl::Status CommitMap(v1::Map map, Changes changes = {});

  // Makes the first map if it is due, and sends the map and the tables to shards that are behind. Call at
  // NextTry(), and after anything that may have changed map or tables.
  void Pump();
  // The same for one shard, after an answer of it.
  void PumpShard(uint32_t shard);
  absl::Time NextTry() const;
  // From now on silence is counted anew.
  void ListenAfresh();
  // Notes the versions that a shard has stated; the shard is sent newer ones.
  void HasVersions(uint32_t shard, std::optional<uint64_t> map, std::optional<uint64_t> catalogue);
  // The same for the answer to a call of this coordinator. If the shard has newer versions than the store,
  // the store is behind.
  void HasAnswered(uint32_t shard, uint64_t map, std::optional<uint64_t> catalogue);

  // True if the shard has been heard of recently.
  bool Alive(uint32_t shard) const;
  size_t AliveCount() const;
  // True if the member is the newest start of its shard.
  bool Current(const v1::Member& member) const;
  // True if it is current, and its shard is alive.
  bool Alive(const v1::Member& member) const { return Current(member) && Alive(member.shard()); }
  absl::Duration Silence(uint32_t shard) const;
  // The last beat that this coordinator received from the shard's newest start; nullptr: none yet.
  const v1::BeatRequest* LastBeat(uint32_t shard) const;
  // True if the shard has given up its folder: it keeps and serves nothing, until it is started again.
  bool Emptied(uint32_t shard) const;
  // True if it has given up its folder, or drains and is being asked to, or may have been by an earlier
  // coordinator: it gets no segment.
  bool MayGo(uint32_t shard) const;
  // Why it did not mark its folder as emptied when it was asked last; empty: it did, or was not asked.
  std::string WhyNotEmptied(uint32_t shard) const;
  // True if the shard can keep nothing at present: it acknowledges only updates on its disk, and the disk is
  // full or fails.
  bool DiskUseless(uint32_t shard) const;
  // Names of the map's primaries that have not beaten since this coordinator started. Empty: all have.
  std::vector<std::string> Unreported() const;

  // Per shard that is their primary, the segments whose members have all been started again.
  const std::map<uint32_t, std::set<uint32_t>>& lost() const { return lost_; }
  bool IsLost(uint32_t segment) const { return lost_segments_.contains(segment); }
  // Tells the operator how many segments each shard has lost.
  void ReportLost() const;
  // The segments whose primary has been started again and is proved to have ended, whose new start has
  // beaten, and that have a replica that has not been started again. (In other segments a replica takes over
  // once it gets no beacons.)
  const std::set<uint32_t>& to_take_over() const { return to_take_over_; }
  // The segments whose members have all been started again, and whose disks have yet to be asked. Those that
  // the disks of no member have are marked as lost in the map.
  const std::set<uint32_t>& to_recover() const { return to_recover_; }
  // OK: numbers of sessions, tables and jobs, and versions, may be issued. kUnavailable: not yet, since
  // shards that may know of later ones have not been heard of by this coordinator (the message names them);
  // or never, since the store is behind.
  absl::Status CheckMayGiveIds() const;
  // The same in the first 3 s of this coordinator, OK afterwards: for changes of the map. Shards in `silent`
  // need not have been heard of: the map changes because they are silent.
  absl::Status CheckMayMakeMaps(absl::Span<const uint32_t> silent = {}) const;
  // As StoreAge::Check.
  absl::Status CheckKnown(const v1::Known& known, const v1::Member& from);
  // OK, or an error because the store is an older copy: then no request is served.
  const absl::Status& store_behind() const { return age_.behind(); }
  // OK, or kDataLoss, which names the loss and the remedy.
  absl::Status CheckNothingLost() const;
  // The problems of the shards, one sentence each, with a remedy.
  std::vector<std::string> Problems() const;

 private:
  // Soft state of a shard: a restart of the coordinator forgets it.
  struct Soft {
    absl::Time heard;
    bool met = false;             // it has beaten, joined, or may join: the store knows all that it knows
    bool emptied = false;         // it has said to this coordinator that its folder is marked as emptied
    int emptying = 0;             // calls under way that ask it to mark its folder
    std::string why_not_emptied;  // its refusal of the last such call; empty: none
    bool answered = false;        // it has named the versions of its map and its list of tables
    std::optional<v1::BeatRequest> last;
    uint64_t map_version = 0;
    uint64_t catalogue_version = 0;
    bool installing = false;
    bool wants_whole = false;  // it has refused what has changed in the map
    absl::Time next_install = absl::InfinitePast();
    int failures = 0;  // installs in a row; reported as a problem from the second since the first beat
    std::string failure;
  };

  absl::Status CheckJoin(const v1::JoinClusterRequest& request) const;
  absl::Status CheckLevel(const v1::JoinClusterRequest& request) const;
  absl::Status CheckNewest(const v1::JoinClusterRequest& request) const;
  // OK if there is no folder, or it is the newest one of this shard.
  absl::Status CheckFolder(const v1::JoinClusterRequest& request);
  absl::Status CheckOwner(const v1::JoinClusterRequest& request);
  absl::Status CheckAge(const v1::DataFolder& folder, const ShardRecord& known);
  absl::Status Removed(uint32_t shard) const;
  v1::JoinClusterReply ReplyTo(const v1::JoinClusterRequest& request) const;
  // True if this coordinator has started so recently that a living shard may not have been heard of yet.
  bool Listens() const;
  // True if the shard has not been heard of, and may know more than the store.
  bool Unmet(uint32_t shard, const Soft& soft) const;
  // OK, or an error that names the shards of which `unmet` is true.
  absl::Status CheckMet(absl::FunctionRef<bool(uint32_t shard, const Soft& soft)> unmet) const;
  // The term, once every shard that may know more than the store was heard of; 0 until then.
  uint64_t TermToTell() const;
  void NotePositions();
  // Adds the start in `record` to those that may still run, unless the request proves its end.
  void NoteUnproven(const v1::JoinClusterRequest& request, ShardRecord& record) const;
  // Takes the numbers that it needs from `counters`.
  absl::StatusOr<ShardRecord> RecordFor(const v1::JoinClusterRequest& request,
                                        CountersRecord& counters) const;
  static absl::Status Stamp(const v1::DataFolder& folder, ShardRecord& record);
  absl::Status AddStart(const v1::JoinClusterRequest& request);
  // The level of the next map: all shards speak it, `joining` included; never below the present map's.
  uint32_t LevelWith(const ShardRecord* joining) const;
  // The map with `shard` as it is known now. Segments that it alone served go to its new start if nothing can
  // be lost by that.
  v1::Map MapWith(const v1::ShardInfo& shard) const;
  void MakeFirstMap();
  void OnMap();
  void FindTakeovers();
  bool Behind(uint32_t shard, const Soft& soft) const;
  // As StoreAge::Check.
  absl::Status CheckCatalogue(uint64_t version, absl::string_view who);
  // What was sent to a shard.
  struct Installing {
    v1::Member target;
    uint64_t map_version = 0;
    uint64_t catalogue_version = 0;
    bool whole = false;  // a whole map
  };
  // The change by which the shard comes to the newest map; nullptr: it needs all of it.
  std::shared_ptr<const v1::Map> DeltaFor(const Soft& soft) const;
  // True if it needs a whole map and enough of these are under way.
  bool WaitsForRoom(const Soft& soft) const;
  void InstallIfDue(uint32_t shard, const Soft& soft);
  void Install(uint32_t shard);
  void AddMap(const Soft& soft, v1::InstallRequest& request, Installing& sent) const;
  void OnInstalled(const Installing& sent, const absl::StatusOr<v1::InstallReply>& reply);
  void NoteInstalled(const Installing& sent, const absl::StatusOr<v1::InstallReply>& reply,
                     const v1::ShardInfo& info);
  // True if the shard, in any start, is primary of some segment by the map.
  bool IsPrimary(uint32_t shard) const;
  // "of an older feature level than 2: …".
  std::string OlderShards() const;
  std::string LostText(uint32_t shard, const std::set<uint32_t>& segments) const;

  Context& context_;
  StoreAge age_;
  Superseding superseding_;
  const absl::Time began_;
  absl::Time next_positions_ = absl::InfinitePast();
  std::map<uint32_t, Soft> soft_;
  size_t whole_maps_ = 0;  // under way
  std::map<uint32_t, std::set<uint32_t>> lost_;
  std::set<uint32_t> lost_segments_;
  std::set<uint32_t> to_take_over_;
  std::set<uint32_t> to_recover_;
};

}  // namespace paceline::coordinator
