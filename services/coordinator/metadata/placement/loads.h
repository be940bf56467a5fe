#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/move_plan.h"

namespace paceline::coordinator {

// What clients ask of segments, as their primaries tell it in beats, and what of that the plan is to even out
// (docs/elasticity.md). All of it is soft: the next leader hears it anew.
//
// Segments may move by load (Options::by_load) if
//   - every primary of the present map has told its load since that map was made, and lately;
//   - some shard has had more than `threshold` means of traffic or memory for `lasts`, and that is enough
//     to be worth a move; after each round of moves that time begins anew;
//   - this coordinator has led for `rests`.
// A segment that has moved rests for as long. The planner (ring/planner.h) has the other conditions: nothing
// moves otherwise, no copy is missing, no shard drains.
class Loads {
 public:
  Loads(Context& context, const Membership& membership)
      : context_(context), membership_(membership), began_(context.now) {}

  void OnBeat(const v1::BeatRequest& beat);

  // -- the plan --
  // Call before each plan. `moving`: a move of the segment is under way.
  void Look(absl::FunctionRef<bool(uint32_t segment)> moving);
  LoadInputs Inputs() const;
  // This move by load begins.
  void OnMove(const MemberMove& move);

  // -- for people --
  v1::LoadStatus Status() const;
  // The load of each shard, and of the cluster.
  void AddTo(v1::StatusReply& reply) const;

 private:
  struct Told {
    uint64_t incarnation = 0;
    absl::Time at;
    v1::ShardLoad load;
  };
  struct Moved {
    absl::Time at;
    std::optional<uint32_t> relieved = {};  // the shard whose copy goes
  };
  // Traffic, in rows a second, and bytes of all shards that take segments: the sum, and the most of one.
  struct Sums {
    size_t shards = 0;
    double rows = 0, rows_most = 0, bytes = 0, bytes_most = 0;

    double MeanRows() const { return shards == 0 ? 0 : rows / static_cast<double>(shards); }
    double MeanBytes() const { return shards == 0 ? 0 : bytes / static_cast<double>(shards); }
  };

  const ByLoad& by_load() const { return context_.options.by_load; }
  // nullptr: its newest start has told none.
  const Told* FindTold(uint32_t shard) const;
  bool AllHaveTold() const;
  Sums Sum() const;
  bool Uneven(const Sums& sums) const;

  Context& context_;
  const Membership& membership_;
  const absl::Time began_;
  std::map<uint32_t, Told> told_;    // by shard
  std::map<uint32_t, Moved> moved_;  // by segment; those that rest, or have a copy too many
  uint64_t map_version_ = 0;
  absl::Time map_since_ = absl::InfinitePast();
  absl::Time uneven_since_ = absl::InfiniteFuture();
  uint64_t moves_ = 0;
};

}  // namespace paceline::coordinator
