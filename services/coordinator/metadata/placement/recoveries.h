#pragma once

#include <cstdint>
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
#include "services/coordinator/metadata/sessions/sessions.h"

namespace paceline::coordinator {

// Continues segments from the disks of their members, once every member of the last configuration has been
// started again.
//
// The coordinator asks the newest starts of all members' shards. Each promises to follow no older epoch, and
// reports how far the log on its disk goes. When all have answered, the most advanced one becomes primary of
// the next epoch, alone; replicas are recruited as usual. All are awaited, since any of them may have an
// acknowledged record on its disk. If none has anything the segment is lost.
//
// If some are not started again, or none has anything, an operator may accept the loss: by segment and epoch,
// naming the shards that are given up. Then the shards that were started again and live are asked, and the
// segment continues from the most advanced one. If none of them has anything, all other living shards are
// asked whether they kept data of the segment from an earlier configuration. If none did, the segment begins
// empty on one of them. Before the data is given up all sessions are evicted: what they had in that segment,
// and it of them, is gone. All jobs are marked with the loss. A silent member that was not started again
// counts as ended if it was named; one that was not named, and falls silent later, is awaited as before.
//
// Nothing of this is stored. The next leader asks again; a loss has to be accepted again.
class Recoveries {
 public:
  // `before_loss` is called before a map is committed in which a segment begins empty; unless it returns OK
  // the commit is tried again later. `on_map` is called, within the visit, after a map was committed, and
  // told whether a segment begins empty in it.
  Recoveries(Context& context, Membership& membership, Sessions& sessions,
             std::function<absl::Status()> before_loss, std::function<void(bool emptied)> on_map)
      : context_(context),
        membership_(membership),
        sessions_(sessions),
        before_loss_(std::move(before_loss)),
        on_map_(std::move(on_map)) {}

  // Returns the segments that continue only if a loss is accepted, and the shards that they wait for. First
  // accepts the losses that `request` names, where the segment still waits in that epoch.
  v1::RecoverSegmentsReply Recover(const v1::RecoverSegmentsRequest& request);

  // Sends the calls that are due, and commits decisions. Call after a change of the map, and at NextTry().
  void Pump();
  absl::Time NextTry() const;
  void StopAll() {
    attempts_.clear();
    accepted_.clear();
  }

  // Segments that continued from a disk since this coordinator started.
  uint64_t recovered() const { return recovered_; }

 private:
  // The position of a log: epoch of the last record, its LSN.
  using Progress = std::pair<uint64_t, uint64_t>;
  struct Attempt {
    uint64_t epoch = 0;                    // the one to be replaced
    std::map<uint32_t, uint64_t> members;  // shards, and the starts that are asked
    // Living shards that were not members, and their starts. They are asked if no member has anything and the
    // loss was accepted. nullopt: not asked.
    std::optional<std::map<uint32_t, uint64_t>> others;
    std::map<uint32_t, Progress> found;
    std::set<uint32_t> under_way;
    absl::Time next_ask = absl::InfinitePast();
    absl::Time lost_at = absl::InfiniteFuture();  // calls under way count as lost then

    Progress Best() const;
    // The start of this shard that is asked; nullopt: none is.
    std::optional<uint64_t> Asked(uint32_t shard) const;
  };
  // Decisions that are committed together.
  struct Decisions {
    v1::Map map;
    uint64_t ready = 0;
    uint64_t nowhere = 0;          // nothing was found of so many, and no loss was accepted: marked as lost
    std::set<uint32_t> emptied;    // these begin empty …
    std::set<uint32_t> fell_back;  // … these continue from data of an earlier configuration …
    std::set<uint32_t> lack;       // … and these from the members that were not given up
  };

  const v1::SegmentConfig& ConfigOf(uint32_t segment) const;
  Progress ProgressOf(const v1::FenceReply::Segment& answer) const;
  // nullopt: it goes on by itself, or serves.
  std::optional<v1::RecoverSegmentsReply::Segment> Waiting(uint32_t segment) const;
  bool Accepted(uint32_t segment) const;
  void Accept(uint32_t segment);
  // The member's shard was started again, and lives: its disk can be asked.
  bool CanBeAsked(const v1::Member& member) const;
  // Makes the attempts match the segments to be recovered and the newest starts of their members.
  void Renew();
  // The members to ask. If a loss was accepted, without those that were given up and have not come back.
  std::map<uint32_t, uint64_t> MembersNow(uint32_t segment) const;
  void Ask();
  void OnAnswer(uint32_t shard, uint64_t incarnation, const std::vector<uint32_t>& asked,
                const absl::StatusOr<v1::FenceReply>& reply);
  // Of the living shards among these, or, if there are none, among all, the one that is primary of the fewest
  // segments of `map`; nullopt: no shard lives.
  std::optional<v1::Member> LeastBusy(const v1::Map& map, const std::set<uint32_t>& among) const;
  void CommitReady();
  void Decide(uint32_t segment, Attempt& attempt, Decisions& decisions);
  // True: all others have answered, or ended meanwhile.
  bool AskOthers(Attempt& attempt) const;
  // Marks the jobs, for good, with the data that was given up.
  void MarkJobs(const Decisions& decisions, Changes& changes) const;

  Context& context_;
  Membership& membership_;
  Sessions& sessions_;
  const std::function<absl::Status()> before_loss_;
  const std::function<void(bool)> on_map_;
  std::map<uint32_t, Attempt> attempts_;  // by segment
  struct Loss {
    uint64_t epoch = 0;
    std::set<uint32_t> given_up;  // shards that were awaited when the loss was accepted
  };
  std::map<uint32_t, Loss> accepted_;  // by segment
  uint64_t recovered_ = 0;
};

}  // namespace paceline::coordinator
