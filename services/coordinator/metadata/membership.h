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

  // kFailedPrecondition: a newer start of this shard has joined, this one must end.
  absl::StatusOr<v1::JoinClusterReply> Join(const v1::JoinClusterRequest& request);
  // kFailedPrecondition: not from the newest start of a shard of this cluster; its sender must end.
  absl::StatusOr<v1::BeatReply> Beat(const v1::BeatRequest& request);

  // Commits the map in which `shard` is primary of `segment`. Moves no data: see CoordinatorCore.
  absl::Status MoveSegment(uint32_t segment, uint32_t shard);
  // Commits `map`, made from the one there is, as its next version. As Context::Commit.
  absl::Status CommitMap(v1::Map map);

  // Makes the first map if it is due, and tells the map and the tables to shards that are behind. Call after
  // whatever may have changed either, and at NextTry().
  void Pump();
  absl::Time NextTry() const;
  // Silence counts from now.
  void ListenAfresh();
  // What a shard said it has; sends it what is newer.
  void HasVersions(uint32_t shard, std::optional<uint64_t> map, std::optional<uint64_t> catalogue);

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
  // The primaries of the map that have not beaten since this coordinator started, by name. Empty: all have.
  std::vector<std::string> Unreported() const;

  // Per shard that is primary of them, the segments whose members have all been started again.
  const std::map<uint32_t, std::set<uint32_t>>& lost() const { return lost_; }
  bool IsLost(uint32_t segment) const { return lost_segments_.contains(segment); }
  // The segments whose primary has been started again, that start having beaten, and that have a replica that
  // has not been.
  const std::set<uint32_t>& to_take_over() const { return to_take_over_; }
  // The segments whose members have all been started again, some of them with a disk.
  const std::set<uint32_t>& to_recover() const { return to_recover_; }
  // All disks were asked, and none has any of these segments: they are lost, unless one is started with
  // another.
  void OnNothingFound(const std::set<uint32_t>& segments);
  // OK, or kDataLoss saying what is gone and what to do.
  absl::Status CheckNothingLost() const;
  // What is wrong with the shards, one sentence each, with what to do.
  std::vector<std::string> Problems() const;

 private:
  // What a restart of the coordinator forgets of a shard.
  struct Soft {
    absl::Time heard;
    std::optional<v1::BeatRequest> last;
    uint64_t map_version = 0;
    uint64_t catalogue_version = 0;
    bool installing = false;
    absl::Time next_install = absl::InfinitePast();
    int failures = 0;  // installs in a row; a problem from the second since the first beat
    std::string failure;
  };

  absl::Status CheckJoin(const v1::JoinClusterRequest& request) const;
  absl::StatusOr<ShardRecord> RecordFor(const v1::JoinClusterRequest& request, uint64_t incarnation) const;
  absl::Status AddStart(const v1::JoinClusterRequest& request);
  // The map with `shard` as it is now known; what it alone served is given to the new start if nothing can be
  // lost.
  v1::Map MapWith(const v1::ShardInfo& shard) const;
  void MakeFirstMap();
  void OnMap();
  void FindTakeovers();
  bool Behind(uint32_t shard, const Soft& soft) const;
  void Install(uint32_t shard);
  void OnInstalled(const v1::InstallRequest& request, const absl::StatusOr<v1::InstallReply>& reply);
  // Whether some member's newest start has a disk.
  bool MayHaveDisk(const v1::SegmentConfig& config) const;
  // Of some segment, by the map; whichever start of the shard that is.
  bool IsPrimary(uint32_t shard) const;
  std::string LostText(uint32_t shard, const std::set<uint32_t>& segments) const;

  Context& context_;
  std::map<uint32_t, Soft> soft_;
  std::map<uint32_t, std::set<uint32_t>> lost_;
  std::set<uint32_t> lost_segments_;
  std::set<uint32_t> to_take_over_;
  std::set<uint32_t> to_recover_;
  std::set<uint32_t> nothing_found_;  // segments, by the disks of the shards' newest starts
};

}  // namespace paceline::coordinator
