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
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/membership.h"
#include "services/coordinator/metadata/move_plan.h"
#include "services/coordinator/metadata/promotions.h"
#include "services/coordinator/metadata/roll_call.h"
#include "services/coordinator/metadata/sessions.h"

namespace paceline::coordinator {

// Carries out the plan (move_plan.h), and hands over what a shard is primary of when somebody asks for it.
//
// A primary is asked to recruit a learner, or to hand a segment over, again and again until the map shows it:
// what it does with that ends in a wish of its own (configs.h). Nothing of this is stored; whoever leads next
// plans anew. Only that a segment lets go of a replica it has beyond what is wanted is committed here: its
// primary waits for all members of the epoch it knows until it hears of this one, so nothing that it
// acknowledged is missing there.
class Moves {
 public:
  // `on_map` is told, within the visit, that a map was committed.
  Moves(Context& context, Membership& membership, Promotions& promotions, Sessions& sessions,
        std::function<void()> on_map)
      : context_(context),
        membership_(membership),
        promotions_(promotions),
        sessions_(sessions),
        roll_call_(context, [this] { Pump(); }),
        on_map_(std::move(on_map)) {}

  // -- requests --
  // Answered once no segment is left that could be handed over or whose replica is on its way, and with what
  // was done until then at the deadline. The shard is given no primaries any more until it is started again,
  // or for ten minutes; one that leaves is no replica of any segment either, but those of which no other
  // member stays. kNotFound, kFailedPrecondition: there is no such shard, or it does not live, or was started
  // again.
  Ticket HandOverShard(const v1::HandOverShardRequest& request, absl::Time deadline,
                       Done<v1::HandOverShardReply> done);
  void Abandon(Ticket ticket);
  // Answers everything that waits with `why`, and plans no more.
  void End(const absl::Status& why);
  size_t waiting() const { return requests_.size(); }

  // -- events --
  // Plans and asks. Call after a change of the map and at NextTry().
  void Pump();
  absl::Time NextTry() const;

  // Learners that are being recruited, by shard.
  std::map<uint32_t, int> Learners() const;
  // The segments with fewer replicas than wanted that live.
  std::set<uint32_t> UnderReplicated() const;
  // What is wrong, one sentence each, with what to do.
  std::vector<std::string> Problems() const;

 private:
  struct UnderWay {
    Move move;
    absl::Time since;
    absl::Time next_ask = absl::InfinitePast();
  };
  struct Request {
    v1::Member shard;
    std::set<uint32_t> segments;  // that it was primary of, or about to be, since this began
    bool leave = false;           // it lets go of its replicas too
    absl::Time deadline;
    Done<v1::HandOverShardReply> done;
  };
  struct Leaving {
    uint64_t incarnation = 0;
    absl::Time since;
    bool ends = false;  // takes no replicas either
  };

  // -- moves.cc --
  const v1::SegmentConfig& ConfigOf(uint32_t segment) const;
  std::map<uint32_t, Move> MovesUnderWay() const;
  void Forget();
  bool Ended(const UnderWay& one);
  void Plan();
  void CommitDrops(const std::vector<Move>& moves);
  void Ask();
  void SendRecruits(uint32_t shard, const std::vector<Move>& moves);
  void SendHandOvers(uint32_t shard, const std::vector<Move>& moves);
  void OnAsked(uint32_t shard, const std::vector<Move>& moves, const absl::Status& status,
               const std::set<uint32_t>& accepted);

  // -- hand_overs.cc --
  void PumpRequests();
  // The shard of the request is no replica any more of what goes on without it. Returns of how many segments
  // it was one.
  uint32_t LetGo(const Request& request);
  // False: nothing is left to wait for.
  bool Advance(Request& request);
  // Whether the segment can be handed over by and by; begins it if there is room.
  bool Advance(const Request& request, uint32_t segment, int& room);
  std::optional<v1::Member> BestReplica(const v1::SegmentConfig& config) const;
  // It lives, and was not told to end.
  bool Stays(const v1::Member& member) const;
  // The segment's primary stays, and lives now: a replica may go.
  bool GoesOnWithout(uint32_t segment);
  // Some other member of it stays, as far as is known.
  bool MayStay(const v1::SegmentConfig& config, const Request& request) const;
  // Whether a hand-over to it is under way.
  bool IsHandedOverTo(const v1::Member& shard, uint32_t segment) const;
  // A replica that stays is on its way, or could be: a shard that stays is no member yet.
  bool WillHaveReplica(uint32_t segment) const;
  std::string WhyKept(const Request& request, uint32_t segment) const;
  v1::HandOverShardReply ReplyTo(const Request& request);

  Context& context_;
  Membership& membership_;
  Promotions& promotions_;
  Sessions& sessions_;
  RollCall roll_call_;
  const std::function<void()> on_map_;
  std::map<uint32_t, UnderWay> under_way_;  // by segment
  std::set<std::pair<uint32_t, uint32_t>> failed_;
  std::map<Ticket, Request> requests_;
  std::map<uint32_t, Leaving> leaving_;  // by shard
  uint64_t planned_map_ = 0;
  absl::Time next_plan_ = absl::InfinitePast();
  absl::Time next_look_ = absl::InfiniteFuture();  // at requests that wait for a shard to answer
};

}  // namespace paceline::coordinator
