#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "paceline/v1/control.pb.h"
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/membership.h"

namespace paceline::coordinator {

// Carries changes of sessions to every segment of the ring. One call per shard that is primary of segments
// not named yet; an answer names the segments whose record is committed; what is missing is asked for again,
// with growing pauses, until every segment was named by some answer. A segment that moves between two calls
// is in neither answer and so is asked for once more. Nothing of this is stored: the session's state is, and
// whoever leads next starts from there.
class FanOuts {
 public:
  // Told within the visit in which it happens.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Every segment was named. Told again after a pause until the fan-out is stopped or replaced, since what
    // follows is a commit, which may fail.
    virtual void OnNamedEverywhere(uint64_t session) = 0;
    // JOIN: `segment` refuses, its min clock is past the start. Also told of answers that come late.
    virtual void OnJoinRefused(uint64_t session, uint32_t job, uint32_t segment, uint64_t min_clock) = 0;
  };

  FanOuts(Context& context, Membership& membership, Listener& listener)
      : context_(context), membership_(membership), listener_(listener) {}

  // Starts or replaces the fan-out of this session.
  void Start(v1::SessionChange change);
  void Stop(uint64_t session) { fan_outs_.erase(session); }
  void StopAll() { fan_outs_.clear(); }

  // Sends what is due. Call after a change of the map and at NextTry().
  void Pump();
  absl::Time NextTry() const;

  // Whom the session's fan-out waits for and why, for messages; empty if none is under way.
  std::string Waits(uint64_t session) const;
  // All it still waits for is lost: waiting is of no use.
  bool Hopeless(uint64_t session) const;
  // Of the fan-out under way; now if none is.
  absl::Time Since(uint64_t session) const;

 private:
  struct Target {
    std::set<uint32_t> missing;  // segments of the shard not named yet
    bool under_way = false;
    absl::Time next_try = absl::InfinitePast();
    int failures = 0;
    std::string why;  // the last answer was not the whole of it
  };
  struct FanOut {
    v1::SessionChange change;
    uint64_t number = 0;  // tells a replaced one's answers apart
    absl::Time since;
    uint64_t map_version = 0;            // of the grouping below
    std::set<uint32_t> missing;          // segments not named yet
    std::set<uint32_t> lost;             // those of them that nobody serves
    std::map<uint32_t, Target> targets;  // by shard
    absl::Time next_told = absl::InfinitePast();
  };

  void PumpOne(uint64_t session);
  void Group(FanOut& fan_out) const;
  void Send(FanOut& fan_out, uint32_t shard, Target& target);
  void OnAnswer(const v1::SessionChange& change, uint64_t number, uint32_t shard,
                const absl::StatusOr<v1::SessionChangeReply>& reply);
  void Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<v1::SessionChangeReply>& reply);

  Context& context_;
  Membership& membership_;
  Listener& listener_;
  std::map<uint64_t, FanOut> fan_outs_;  // by session
  std::map<uint32_t, size_t> calls_;     // under way, by shard
  uint64_t last_number_ = 0;
};

}  // namespace paceline::coordinator
