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
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/membership.h"

namespace paceline::coordinator {

// Segments whose primary is silent or over get another one, from their replicas.
//
// A replica that wishes for it is *fenced* first, on the condition that it is still without a beacon for as
// long as it has lent the primary: from then on the primary answers nobody, since it lacks this replica's
// lease. Then the other replicas are fenced too. Of those that answer in time the most advanced becomes
// primary of the next epoch, the others its replicas: each holds every acknowledged record, and the most
// advanced log has the fewest to discard. Where the primary's process is known to be over, because its shard
// has joined again, no silence is needed, nor a wish: all replicas are fenced at once.
//
// A shard that dies concerns many segments. They go together: one call to fence a shard for all of them, and
// one commit for all that are ready, so that a takeover costs a few round trips whatever the number of
// segments.
//
// Nothing of this is stored. An attempt that comes to nothing is dropped: a fenced replica goes on wishing,
// and asks whoever leads by then. That a commit is made of the configuration that was fenced is checked by
// its epoch.
class Promotions {
 public:
  // `on_map` is told, within the visit, that a map was committed.
  Promotions(Context& context, Membership& membership, std::function<void()> on_map)
      : context_(context), membership_(membership), on_map_(std::move(on_map)) {}

  // `by`, a replica of the segment's configuration and the newest start of its shard, is without a beacon.
  // Takes effect with the next Pump.
  void Wish(uint32_t segment, const v1::Member& by);
  // Begins what is due, sends fences, and commits what is ready. Call after wishes, after a change of the
  // map, and at NextTry().
  void Pump();
  absl::Time NextTry() const;
  // The coordinator was not running: whoever was fenced may have died since. Replicas that are still without
  // a primary wish again.
  void ListenAfresh() { StopAll(); }
  void StopAll() { attempts_.clear(); }

  // Segments that got another primary in this way, since this coordinator started.
  uint64_t takeovers() const { return takeovers_; }
  // Those for which it is under way.
  std::set<uint32_t> UnderWay() const;

 private:
  // How far the log of a fenced replica has come: epoch of the last record, its LSN.
  using Progress = std::pair<uint64_t, uint64_t>;
  struct Attempt {
    uint64_t number = 0;  // tells a replaced one's answers apart
    uint64_t epoch = 0;   // the one to be replaced
    bool primary_over = false;
    std::deque<uint32_t> wishing;   // shards of replicas that may be fenced first
    std::optional<uint32_t> first;  // asked whether it is still silent
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
  // False: nobody is left to ask.
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
  // The configuration that an attempt ends in; nullopt: none can be made.
  std::optional<v1::SegmentConfig> NextConfig(uint32_t segment, const Attempt& attempt,
                                              std::map<uint32_t, int>& primaries) const;

  Context& context_;
  Membership& membership_;
  const std::function<void()> on_map_;
  Attempts attempts_;
  std::map<uint32_t, Call> calls_;             // to be sent at the end of a Pump, by shard
  std::map<uint32_t, absl::Time> next_begin_;  // of segments whose takeover came to nothing, by segment
  absl::Time gather_until_ = absl::InfiniteFuture();
  uint64_t last_number_ = 0;
  uint64_t takeovers_ = 0;
};

}  // namespace paceline::coordinator
