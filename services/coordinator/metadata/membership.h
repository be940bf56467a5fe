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
// belongs to one incarnation of its primary: what it holds is in that process's memory. Once the shard has
// been started again its segments are *lost*, unless no session was ever opened, so that they held nothing.
class Membership {
 public:
  explicit Membership(Context& context);

  // kFailedPrecondition: a newer start of this shard has joined, this one must end.
  absl::StatusOr<v1::JoinClusterReply> Join(const v1::JoinClusterRequest& request);
  // kFailedPrecondition: not from the newest start of a shard of this cluster; its sender must end.
  absl::StatusOr<v1::BeatReply> Beat(const v1::BeatRequest& request);

  // Commits the map in which `shard` is primary of `segment`. Moves no data: see CoordinatorCore.
  absl::Status MoveSegment(uint32_t segment, uint32_t shard);

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
  absl::Duration Silence(uint32_t shard) const;
  // The last beat of the shard's newest start that this coordinator has received; nullptr: none yet.
  const v1::BeatRequest* LastBeat(uint32_t shard) const;
  // The primaries of the map that have not beaten since this coordinator started, by name. Empty: all have.
  std::vector<std::string> Unreported() const;

  // Per shard, the segments that the map gives to an earlier start of it.
  const std::map<uint32_t, std::set<uint32_t>>& lost() const { return lost_; }
  bool IsLost(uint32_t segment) const { return lost_segments_.contains(segment); }
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
    int failures = 0;
    std::string failure;
  };

  absl::Status CheckJoin(const v1::JoinClusterRequest& request) const;
  absl::StatusOr<ShardRecord> RecordFor(const v1::JoinClusterRequest& request, uint64_t incarnation) const;
  absl::Status AddStart(const v1::JoinClusterRequest& request);
  // The map with `shard` as it is now known; its segments are given to the new start if nothing can be lost.
  v1::Map MapWith(const v1::ShardInfo& shard) const;
  void MakeFirstMap();
  void OnMap();
  bool Behind(uint32_t shard, const Soft& soft) const;
  void Install(uint32_t shard);
  void OnInstalled(uint32_t shard, uint64_t incarnation, const absl::StatusOr<v1::InstallReply>& reply);
  std::string LostText(uint32_t shard, const std::set<uint32_t>& segments) const;

  Context& context_;
  std::map<uint32_t, Soft> soft_;
  std::map<uint32_t, std::set<uint32_t>> lost_;
  std::set<uint32_t> lost_segments_;
};

}  // namespace paceline::coordinator
