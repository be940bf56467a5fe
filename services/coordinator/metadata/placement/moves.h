#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/waiters.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/loads.h"
#include "services/coordinator/metadata/placement/move_plan.h"
#include "services/coordinator/metadata/placement/promotions.h"
#include "services/coordinator/metadata/placement/roll_call.h"

namespace paceline::coordinator {

// Carries out the plan (move_plan.h), and hands over a shard's primaries on request.
//
// The coordinator asks a primary to recruit a learner, or to hand a segment over, again and again until the
// map shows it. The primary's work ends in a wish of its own (configs.h). Nothing of this is stored; the next
// leader plans anew. Only the drop of a surplus replica is committed here. The primary waits for all members
// of the epoch that it knows until it learns of the new one, so the remaining members lack no acknowledged
// record.
//
// More than 15 members: what it asks others, moves, requests and shards that leave or come back, and the pace
// that `status` shows.
class Moves {
 public:
  // `on_map` is called, within the visit, after a map was committed.
  Moves(Context& context, Membership& membership, Promotions& promotions, Loads& loads, Waiters& waiters,
        std::function<void()> on_map)
      : context_(context),
        membership_(membership),
        promotions_(promotions),
        loads_(loads),
        waiters_(waiters),
        roll_call_(context, [this] { Pump(); }),
        on_map_(std::move(on_map)) {}

  // -- requests --
  // Answered once no segment is left that could be handed over, or whose next replica is on its way; at the
  // deadline with the segments that were handed over until then. The shard gets no more primaries until it is
  // started again, or for ten minutes. A shard that leaves is also dropped as a replica, except from segments
  // of which no other member stays. kNotFound, kFailedPrecondition: the shard does not exist, is not alive,
  // or was started again.
  absl::StatusOr<Ticket> HandOverShard(const v1::HandOverShardRequest& request, absl::Time deadline,
                                       const Done<v1::HandOverShardReply>& done);
  // How long a shard that is expected back may be silent before others get copies in its place.
  static constexpr absl::Duration kBackWithin = absl::Minutes(1);
  // This start of the shard ends, and another one is about to come, with its folder. Until then its segments
  // are left alone, unless they lack another copy as well. Soft state: another coordinator makes the copies
  // at once.
  void ExpectBack(uint32_t shard);
  // Ends all moves and requests; these are answered by others.
  void StopAll();

  // The next Pump plans, although the map is the same.
  void PlanAnew() { next_plan_ = absl::InfinitePast(); }

  // -- events --
  // Plans and asks shards. Call after a change of the map and at NextTry().
  void Pump();
  absl::Time NextTry() const;

  // Notes how far the learners of the shard's segments are, by its beat.
  void OnBeat(const v1::BeatRequest& beat);

  // The number of learners being recruited, by shard.
  std::map<uint32_t, int> Learners() const;
  // A recruit or a hand-over of the segment is under way.
  bool IsMoving(uint32_t segment) const { return under_way_.contains(segment); }
  // The segments with fewer living replicas than wanted.
  std::set<uint32_t> UnderReplicated() const;
  // What moves, and how much is left of it; nullopt: nothing moves.
  std::optional<v1::MoveStatus> Status() const;
  // The problems, one sentence each, with a remedy.
  std::vector<std::string> Problems() const;

 private:
  struct UnderWay {
    MemberMove move;
    absl::Time since;
    absl::Time next_ask = absl::InfinitePast();
    // Of a recruit, as the primary reports it:
    absl::Time moved_at = absl::InfinitePast();  // when it had moved more than before
    uint64_t bytes_moved = 0;
    std::optional<uint64_t> bytes_left = {};
  };
  struct Request {
    v1::Member shard;
    std::set<uint32_t> segments;  // that it was, or was about to be, primary of since the request began
    bool leave = false;           // drop its replicas too
  };
  struct Leaving {
    uint64_t incarnation = 0;
    absl::Time since;
    bool ends = false;  // gets no replicas either
  };

  struct Absent {
    uint64_t incarnation = 0;
    absl::Time since;
    std::set<uint32_t> segments;  // of which it was a member
  };

  // -- moves.cc --
  const v1::SegmentConfig& ConfigOf(uint32_t segment) const;
  std::map<uint32_t, MemberMove> MovesUnderWay() const;
  void Forget();
  bool Ended(const UnderWay& one);
  void Plan();
  // The one copy that the segment lacks is that of a shard that is expected back.
  bool AwaitsReturn(uint32_t segment) const;
  MoveInputs Inputs() const;
  void CountCopiesLeft();
  void CommitDrops(const std::vector<MemberMove>& moves);
  void Ask();
  void SendRecruits(uint32_t shard, const std::vector<MemberMove>& moves);
  void SendHandOvers(uint32_t shard, const std::vector<MemberMove>& moves);
  void OnAsked(uint32_t shard, const std::vector<MemberMove>& moves, const absl::Status& status,
               const std::set<uint32_t>& accepted);

  // -- hand_overs.cc --
  void PumpRequests();
  // Drops the shard of the request as a replica from the segments that go on without it. Returns of how many
  // segments.
  uint32_t LetGo(const Request& request);
  // False: nothing is left to wait for.
  bool Advance(Request& request);
  // So many replicas stay if the member leaves for a restart that the segment can do without it until then:
  // one less than wanted; or no other could come.
  bool EnoughStay(uint32_t segment, const v1::Member& leaving) const;
  // True if the segment can be handed over sooner or later; begins the hand-over if `room` allows.
  bool Advance(const Request& request, uint32_t segment, int& room);
  std::optional<v1::Member> BestReplica(const v1::SegmentConfig& config) const;
  // It lives, and was not told to end.
  bool Stays(const v1::Member& member) const;
  // The segment's primary stays, and lives now, and so do enough others: this replica may leave.
  bool GoesOnWithout(uint32_t segment, const v1::Member& leaving);
  // Some other member of it stays, as far as is known.
  bool MayStay(const v1::SegmentConfig& config, const Request& request) const;
  // A hand-over of the segment to this shard is under way.
  bool IsHandedOverTo(const v1::Member& shard, uint32_t segment) const;
  // A replica that stays is on its way, or could be: some shard that stays is not a member yet.
  bool WillHaveReplica(uint32_t segment) const;
  std::string WhyKept(const Request& request, uint32_t segment) const;
  v1::HandOverShardReply ReplyTo(const Request& request);
  void Answer(Ticket ticket, const Done<v1::HandOverShardReply>& done, const absl::Status& status);

  Context& context_;
  Membership& membership_;
  Promotions& promotions_;
  Loads& loads_;
  Waiters& waiters_;
  RollCall roll_call_;
  const std::function<void()> on_map_;
  std::map<uint32_t, UnderWay> under_way_;  // by segment
  std::set<std::pair<uint32_t, uint32_t>> failed_;
  std::map<Ticket, Request> requests_;
  std::map<uint32_t, Leaving> leaving_;  // by shard
  std::map<uint32_t, Absent> expected_;  // by shard
  uint64_t planned_map_ = 0;
  absl::Time next_plan_ = absl::InfinitePast();
  uint32_t copies_left_ = 0;  // to be made after those under way, as of the last plan that began some
  // Bytes that moved since then, and before.
  absl::Time measured_since_ = absl::InfinitePast();
  uint64_t measured_bytes_ = 0;
  uint64_t bytes_per_s_ = 0;
  absl::Time next_look_ = absl::InfiniteFuture();  // at requests that wait for a shard to answer
};

}  // namespace paceline::coordinator
