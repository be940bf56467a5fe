#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/control.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"

namespace paceline::coordinator {

// Replaces the primary of segments whose primary is silent, or has ended, by one of their replicas.
//
// A replica that wishes for it is *fenced* first, on the condition that it has still been without a beacon
// for as long as it lent the primary. From then on the primary sends no answers, since it lacks this
// replica's lease. Then the other replicas are fenced too. Of the replicas that answer in time the most
// advanced becomes primary of the next epoch, the others its replicas: each holds every acknowledged record,
// and with the most advanced log the fewest records are discarded. If the primary's process is known to have
// ended, because its shard has joined again, neither silence nor a wish is needed: all replicas are fenced at
// once.
//
// The death of a shard affects many segments. They are handled together: one call fences a shard for all of
// them, and one commit serves all segments that are ready. So a takeover costs a few round trips, whatever
// the number of segments.
//
// Nothing of this is stored. An attempt that fails is dropped: a fenced replica keeps wishing, and asks the
// next leader. The epoch ensures that a commit replaces exactly the configuration that was fenced.
class Promotions {
 public:
  // `on_map` is called, within the visit, after a map was committed.
  Promotions(Context& context, Membership& membership, std::function<void()> on_map)
      : context_(context), membership_(membership), on_map_(std::move(on_map)) {}

  // `by`, a replica of the segment's configuration and the newest start of its shard, gets no beacons. Takes
  // effect with the next Pump.
  void Wish(uint32_t segment, const v1::Member& by);
  // Begins attempts that are due, sends fences, and commits attempts that are ready. Call after wishes, after
  // a change of the map, and at NextTry().
  void Pump();
  absl::Time NextTry() const;
  // The coordinator was not running: replicas that were fenced may have died since. Replicas that still have
  // no primary will wish again.
  void ListenAfresh() { StopAll(); }
  void StopAll() { attempts_.clear(); }

  // Segments that got another primary this way since this coordinator started.
  uint64_t takeovers() const { return takeovers_; }
  // The segments with an attempt under way.
  std::set<uint32_t> UnderWay() const;

 private:
  // The position of a fenced replica's log: epoch of the last record, its LSN.
  using Progress = std::pair<uint64_t, uint64_t>;
  struct Attempt {
    uint64_t number = 0;  // tells answers to replaced attempts apart
    uint64_t epoch = 0;   // the one to be replaced
    bool primary_over = false;
    std::deque<uint32_t> wishing;   // shards of replicas that wish, in the order to be fenced
    std::optional<uint32_t> first;  // the one asked whether it is still silent
    bool others_asked = false;
    std::set<uint32_t> awaited;
    std::map<uint32_t, Progress> fenced;
    absl::Time deadline;
  };
  using Attempts = std::map<uint32_t, Attempt>;  // by segment
  struct Asked {
    uint32_t segment = 0;
    uint64_t number = 0;
  };
  struct Call {
    v1::FenceRequest request;
    std::vector<Asked> asked;
  };

  const v1::SegmentConfig& ConfigOf(uint32_t segment) const;
  void BeginTakeovers();
  void DropOutdated();
  // False: no replica is left to ask.
  bool AskFirst(uint32_t segment, Attempt& attempt);
  void AskOthers(uint32_t segment, Attempt& attempt);
  void Ask(uint32_t segment, Attempt& attempt, uint32_t shard, bool only_if_silent);
  void PassDeadlines();
  void Send();
  void OnAnswer(uint32_t shard, uint64_t incarnation, const std::vector<Asked>& asked,
                const absl::StatusOr<v1::FenceReply>& reply);
  void Take(Attempts::iterator it, uint32_t shard, const v1::FenceReply::Segment* answer);
  static bool Ready(const Attempt& attempt) { return attempt.others_asked && attempt.awaited.empty(); }
  void CommitReady();
  // The configuration that an attempt leads to; nullopt: there is none.
  std::optional<v1::SegmentConfig> NextConfig(uint32_t segment, const Attempt& attempt,
                                              std::map<uint32_t, int>& primaries) const;

  Context& context_;
  Membership& membership_;
  const std::function<void()> on_map_;
  Attempts attempts_;
  std::map<uint32_t, Call> calls_;             // to be sent at the end of a Pump, by shard
  std::map<uint32_t, absl::Time> next_begin_;  // by segment: after a takeover that failed
  absl::Time gather_until_ = absl::InfiniteFuture();
  uint64_t last_number_ = 0;
  uint64_t takeovers_ = 0;
};

}  // namespace paceline::coordinator
