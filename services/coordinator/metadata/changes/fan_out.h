#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "paceline/v1/control.pb.h"
#include "services/coordinator/metadata/changes/subject.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"

namespace paceline::coordinator {

// Carries changes of sessions, tables and jobs to every segment of the ring. It makes one call to each shard
// that is primary of segments not named yet. An answer names the segments whose record is committed. The rest
// is asked for again, with growing pauses, until some answer has named every segment. A segment that moves
// between two calls is in neither answer, and is asked for once more. A fan-out is not stored: the intent is,
// and the next leader starts from there.
class FanOuts {
 public:
  // Called within the visit in which the event happens.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Every segment was named. Called again after a pause until the fan-out is stopped or replaced: the
    // commit that follows may fail.
    virtual void OnNamedEverywhere(Subject subject) = 0;
    // Join, rule, cut: `segment` refuses, since its clocks are past the clock. Also called for late answers.
    virtual void OnClockPassed(const v1::Change& change, uint32_t segment, uint64_t clock) = 0;
    // The whole answer, before OnNamedEverywhere. Also called for late answers.
    virtual void OnReply(const v1::Change& change, const v1::ChangeReply& reply) = 0;
    // A segment takes the change for one of before it began empty: it needs a new number.
    virtual void OnLate(Subject subject) = 0;
  };

  FanOuts(Context& context, Membership& membership, Listener& listener)
      : context_(context), membership_(membership), listener_(listener) {}

  // Starts the fan-out of this change, in place of an earlier one of the same subject. Its number was
  // committed together with the intent. The first calls follow at the next Pump: the floor that they bear
  // must count every intent that a new leader takes up.
  void Start(v1::Change change);
  void Stop(Subject subject);
  void StopAll() { fan_outs_.clear(), numbers_.clear(); }

  // Sends the calls that are due. Call after a change of the map and at NextTry().
  void Pump();
  absl::Time NextTry() const;

  // The shards that the subject's fan-out waits for, and why, for messages; empty if none is under way.
  std::string Waits(Subject subject) const;
  // True if it waits only for lost segments: waiting is pointless.
  bool Hopeless(Subject subject) const;
  // The start of the subject's fan-out; now, if none is under way.
  absl::Time Since(Subject subject) const;
  // One that takes longer is reported as a problem.
  static constexpr absl::Duration kSlow = absl::Seconds(3);

 private:
  // Stand for shards in FanOut::asked_of.
  static constexpr uint32_t kNamed = UINT32_MAX;
  static constexpr uint32_t kLost = UINT32_MAX - 1;

  struct Target {
    size_t missing = 0;  // segments of the shard not named yet
    bool under_way = false;
    absl::Time next_try = absl::InfinitePast();
    int failures = 0;
    std::string why;  // why the last answer was not complete
  };
  struct FanOut {
    v1::Change change;
    uint64_t start = 0;  // counts them: tells answers to replaced fan-outs apart
    absl::Time since;
    uint64_t map_version = 0;  // of the grouping below
    // By segment: the shard that is asked for it; kNamed: it was named; kLost: it has no living primary.
    std::vector<uint32_t> asked_of;
    size_t missing = 0;                            // segments not named yet
    size_t lost = 0;                               // those of them that have no living primary
    std::map<uint32_t, Target> targets;            // by shard
    absl::Time next_try = absl::InfiniteFuture();  // of its targets; not of those that wait for other calls
    absl::Time next_told = absl::InfinitePast();

    std::set<uint32_t> AskedOf(uint32_t shard) const;
  };

  void PumpOne(Subject subject);
  // Sends the calls to one shard that are due.
  void PumpShard(uint32_t shard);
  void Group(FanOut& fan_out) const;
  void SendIfDue(FanOut& fan_out, uint32_t shard, Target& target);
  void Send(FanOut& fan_out, uint32_t shard, Target& target);
  // The largest number below which no change is under way.
  uint64_t Floor() const;
  void OnAnswer(const v1::Change& change, uint64_t start, uint32_t shard,
                const absl::StatusOr<v1::ChangeReply>& reply);
  void Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<v1::ChangeReply>& reply,
            uint64_t map_version);

  Context& context_;
  Membership& membership_;
  Listener& listener_;
  std::map<Subject, FanOut> fan_outs_;
  std::multiset<uint64_t> numbers_;   // of them; without those that an older release has committed
  std::map<uint32_t, size_t> calls_;  // under way, by shard
  uint64_t last_start_ = 0;
  bool taken_up_ = false;  // every intent found in the store is among fan_outs_
};

}  // namespace paceline::coordinator
