#pragma once

#include <optional>
#include <string>

#include "libs/base/ids.h"
#include "libs/log/primary.h"
#include "libs/ring/segment_map.h"

namespace paceline::shard {

// One segment as one shard sees it: primary here, lost here, or somewhere else. Decides by epoch what a
// request that reached this shard may have, and hands it to the primary. Touched only by tasks of its
// executor.
class SegmentHost {
 public:
  enum class Role {
    kElsewhere,
    kPrimary,
    kLost,  // the map gives it to an earlier start of this shard, whose memory is gone
  };

  explicit SegmentHost(SegmentId id) : id_(id) {}

  // Takes a newer map's word. An empty segment is made only when the map names this very start of the shard
  // for an epoch it has not served: data that another start acknowledged is never replaced by an empty
  // segment.
  void Configure(const ring::SegmentMap& map, const ring::Member& self, const std::string& shard_name,
                 std::shared_ptr<log::Budget> budget);

  // A planned move, in two halves. `map` gives the segment to another shard in a newer epoch. Release gives
  // up the segment's state, to be adopted there; from then on this shard never serves the older epoch again.
  // nullopt: it is not primary, or `map` is not newer. Adopt goes on from that state.
  // REQUIRES for Adopt: `map` gives the segment to this very start of the shard, in an epoch that it does not
  // know yet.
  std::optional<log::Segment> Release(const ring::SegmentMap& map);
  void Adopt(log::Segment state, const ring::SegmentMap& map, std::shared_ptr<log::Budget> budget);

  // As Primary's, after the epoch has been judged (docs/wire.md §7).
  std::optional<v1::Refusal> Take(const log::Part& part, Epoch sender_epoch, absl::Time now);
  void Serve(log::Read read, Epoch sender_epoch, absl::Time now);

  // nullptr unless this shard is primary.
  log::Primary* primary() { return role_ == Role::kPrimary ? &*primary_ : nullptr; }

  // Counts the times this shard became primary; 0 while it is not. A tick that named the segment earlier in
  // the same tenure still speaks for it.
  uint64_t tenure() const { return role_ == Role::kPrimary ? tenure_ : 0; }
  Role role() const { return role_; }
  SegmentId id() const { return id_; }

 private:
  v1::Refusal MovedTo(const ring::Member& primary) const;
  // Why a request with this epoch cannot be had here; nullopt if it can.
  std::optional<v1::Refusal> Misrouted(Epoch sender_epoch) const;

  SegmentId id_;
  Role role_ = Role::kElsewhere;
  Epoch epoch_;  // of the newest map
  MapVersion map_version_;
  std::string lost_message_;
  std::optional<log::Primary> primary_;
  uint64_t tenure_ = 0;
};

}  // namespace paceline::shard
