#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"

namespace paceline::ring {

// One start of a shard's process. A shard that restarts becomes another member, since it has lost its memory.
struct Member {
  ShardId shard;
  Incarnation incarnation;

  friend auto operator<=>(const Member&, const Member&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Member& m) {
    return H::combine(std::move(h), m.shard, m.incarnation);
  }
};

// "shard 2 (incarnation 7)", for messages.
std::string ToString(const Member& member);

// Configuration `epoch` of one segment.
struct SegmentConfig {
  Epoch epoch;
  Member primary;
  std::vector<Member> replicas;  // in sync; their order means nothing but is kept
  Epoch emptied_in = {};         // the epoch in which it began empty, its data given up for lost; 0: never
  uint64_t change_floor = 0;     // with emptied_in: the coordinator's changes up to this one are of before
  bool lost = false;             // all members have been started again, and no disk of theirs has anything

  friend bool operator==(const SegmentConfig&, const SegmentConfig&) = default;
};

// A shard as the rest of the cluster finds it.
struct ShardInfo {
  ShardId id;
  std::string name;               // for people and metrics, as "shard-2"; not empty
  std::string address;            // host:port where clients reach it; not empty
  Incarnation incarnation;        // its newest start that is known
  std::string peer_address = {};  // host:port where shards reach it; empty: at `address`

  friend bool operator==(const ShardInfo&, const ShardInfo&) = default;

  const std::string& ForPeers() const { return peer_address.empty() ? address : peer_address; }
};

// One version of the cluster's assignment of segments to shards. Immutable, so any thread may read it; built
// once and shared as `std::shared_ptr<const SegmentMap>`. All look-ups are O(1) and allocate nothing;
// building one is O(segments × members + shards).
//
// Invariants of every SegmentMap: there are 2^ring_bits segments, each with exactly one configuration, of an
// epoch ≥ 1. The members of a segment are on distinct shards. Each member's shard is listed, with an
// incarnation that is not older than the member's. (The member's may be older: a shard that has just
// restarted stays listed as a dead member until the next epoch leaves it out.)
class SegmentMap {
 public:
  // `segments[i]` is the configuration of segment i; `shards` may come in any order and may hold shards that
  // serve nothing. kInvalidArgument, naming segment or shard, when an invariant above does not hold, when
  // `version` is 0 (which means "no map yet"), or when two shards share an id or a name.
  static absl::StatusOr<SegmentMap> Create(MapVersion version, int ring_bits,
                                           std::vector<SegmentConfig> segments, std::vector<ShardInfo> shards,
                                           uint32_t feature_level = 1);
  // This map as a later version with other configurations of some segments, all else being equal. Fails as
  // Create. O(segments) copies of numbers, and O(members) for each that is named.
  absl::StatusOr<SegmentMap> With(MapVersion version, uint32_t feature_level,
                                  absl::Span<const std::pair<SegmentId, SegmentConfig>> changed) const;

  MapVersion version() const { return version_; }
  // Every shard speaks this level, so its records may be written.
  uint32_t feature_level() const { return feature_level_; }
  int ring_bits() const { return ring_bits_; }
  uint32_t SegmentCount() const { return static_cast<uint32_t>(segments_.size()); }

  // REQUIRES for all that take a segment: segment.v < SegmentCount(). Call `Contains` first for ids off the
  // wire.
  bool Contains(SegmentId segment) const { return segment.v < segments_.size(); }
  Epoch EpochOf(SegmentId segment) const { return segments_[segment.v].epoch; }
  const Member& Primary(SegmentId segment) const { return Members(segment).front(); }
  // Primary first, then the replicas; never empty.
  absl::Span<const Member> Members(SegmentId segment) const;

  // All shards, ascending by id.
  absl::Span<const ShardInfo> shards() const { return shards_; }
  // nullptr: unknown. The pointer lives as long as the map.
  const ShardInfo* FindShard(ShardId shard) const;
  // The segments of which any incarnation of `shard` is primary or replica, ascending. Empty: none, or the
  // shard is unknown.
  absl::Span<const SegmentId> SegmentsOf(ShardId shard) const;

  // The configuration in the form Create takes it. Allocates.
  SegmentConfig ConfigOf(SegmentId segment) const;

 private:
  struct Entry {
    Epoch epoch;
    uint32_t begin = 0;  // of its members in members_
    uint32_t count = 0;
    Epoch emptied_in;
    uint64_t change_floor = 0;
    bool lost = false;
  };

  SegmentMap() = default;
  // Sets the configuration of a segment whose members nobody holds.
  absl::Status Set(SegmentId segment, const SegmentConfig& config);
  absl::Status Hold(SegmentId segment, const Member& member);
  void LetGo(SegmentId segment);
  void Pack();

  MapVersion version_;
  uint32_t feature_level_ = 1;
  int ring_bits_ = 0;
  std::vector<Entry> segments_;
  std::vector<Member> members_;  // of all segments; others between them belong to none any more
  std::vector<ShardInfo> shards_;
  absl::flat_hash_map<ShardId, uint32_t> index_;  // into shards_ and held_
  std::vector<std::vector<SegmentId>> held_;      // per shard
};

}  // namespace paceline::ring
