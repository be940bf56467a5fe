#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "paceline/v1/control.pb.h"
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/membership.h"
#include "services/coordinator/metadata/subject.h"

namespace paceline::coordinator {

// Carries changes of sessions, tables and jobs to every segment of the ring. One call per shard that is
// primary of segments not named yet; an answer names the segments whose record is committed; what is missing
// is asked for again, with growing pauses, until every segment was named by some answer. A segment that moves
// between two calls is in neither answer and so is asked for once more. Nothing of this is stored: the intent
// is, and whoever leads next starts from there.
class FanOuts {
 public:
  // Told within the visit in which it happens.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Every segment was named. Told again after a pause until the fan-out is stopped or replaced, since what
    // follows is a commit, which may fail.
    virtual void OnNamedEverywhere(Subject subject) = 0;
    // JOIN: `segment` refuses, its min clock is past the start. Also told of answers that come late.
    virtual void OnJoinRefused(uint64_t session, uint32_t job, uint32_t segment, uint64_t min_clock) = 0;
    // CHANGE_RULE, TAKE_CUT: `segment` refuses, its clocks are past the clock. Told of late answers too.
    virtual void OnClockPassed(const v1::JobChange& change, uint32_t segment, uint64_t clock) = 0;
    // TAKE_CUT, LOAD_JOB: what an answer says beside that, before OnNamedEverywhere. Of late answers too.
    virtual void OnJobReply(const v1::JobChange& change, const v1::JobChangeReply& reply) = 0;
  };

  FanOuts(Context& context, Membership& membership, Listener& listener)
      : context_(context), membership_(membership), listener_(listener) {}

  using Change = std::variant<v1::SessionChange, v1::JobChange>;

  // Starts or replaces the fan-out of this subject.
  void Start(Change change);
  void Stop(Subject subject) { fan_outs_.erase(subject); }
  void StopAll() { fan_outs_.clear(); }

  // Sends what is due. Call after a change of the map and at NextTry().
  void Pump();
  absl::Time NextTry() const;

  // Whom the subject's fan-out waits for and why, for messages; empty if none is under way.
  std::string Waits(Subject subject) const;
  // All it still waits for is lost: waiting is of no use.
  bool Hopeless(Subject subject) const;
  // Of the fan-out under way; now if none is.
  absl::Time Since(Subject subject) const;

 private:
  struct Target {
    std::set<uint32_t> missing;  // segments of the shard not named yet
    bool under_way = false;
    absl::Time next_try = absl::InfinitePast();
    int failures = 0;
    std::string why;  // the last answer was not the whole of it
  };
  // What an answer says, whatever the change was.
  struct Answer {
    std::vector<uint32_t> committed;
    std::vector<std::pair<uint64_t, uint32_t>> passed;  // clock, segment
    std::string waits;
    // A map has overtaken the call, and the shard may have refused it for that; this coordinator has that
    // map.
    bool overtaken = false;
  };
  struct FanOut {
    Change change;
    uint64_t number = 0;  // tells a replaced one's answers apart
    absl::Time since;
    uint64_t map_version = 0;            // of the grouping below
    std::set<uint32_t> missing;          // segments not named yet
    std::set<uint32_t> lost;             // those of them that nobody serves
    std::map<uint32_t, Target> targets;  // by shard
    absl::Time next_told = absl::InfinitePast();
  };

  void PumpOne(Subject subject);
  void Group(FanOut& fan_out) const;
  void Send(FanOut& fan_out, uint32_t shard, Target& target);
  template <class Request, class Reply, class Call>
  void Send(Request change, uint64_t number, uint32_t shard, Call call);
  template <class Reply>
  absl::StatusOr<Answer> AnswerOf(const absl::StatusOr<Reply>& reply, uint64_t map_version) const;
  template <class Request, class Reply>
  void OnAnswer(const Request& change, uint64_t number, uint32_t shard, const absl::StatusOr<Reply>& reply);
  void Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<Answer>& answer);
  void TellPassed(const v1::SessionChange& change, uint32_t segment, uint64_t clock);
  void TellPassed(const v1::JobChange& change, uint32_t segment, uint64_t clock);
  void TellReply(const v1::SessionChange&, const v1::SessionChangeReply&) {}
  void TellReply(const v1::JobChange& change, const v1::JobChangeReply& reply);

  Context& context_;
  Membership& membership_;
  Listener& listener_;
  std::map<Subject, FanOut> fan_outs_;
  std::map<uint32_t, size_t> calls_;  // under way, by shard
  uint64_t last_number_ = 0;
};

}  // namespace paceline::coordinator
