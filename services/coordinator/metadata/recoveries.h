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
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/membership.h"
#include "services/coordinator/metadata/sessions.h"

namespace paceline::coordinator {

// Segments of whose last configuration every member has been started again go on from what its members' disks
// had.
//
// The shards of all members are asked, by their newest starts; whoever is asked promises to follow no older
// epoch, and says how far the log on its disk goes. When all have answered, the most advanced one becomes
// primary of the next epoch, alone; replicas are recruited as always. All are awaited, since any of them may
// be the one that has an acknowledged record on its disk. Where none has anything the segment is lost.
//
// Where some are not started again, or nobody has anything, somebody may accept the loss: by segment and
// epoch, naming the shards that are given up. Then those that were started again and live are asked; the most
// advanced of them goes on. If none has anything all other shards that live are asked whether they kept
// something of it from an earlier configuration; if none did, the segment begins empty on one of them. Before
// either all sessions are evicted: what they had in that segment, and the segment had of them, is gone. All
// jobs are marked with what was given up. A member that was not started again and is silent counts as ended
// if it was named; who was not, and falls silent later, is awaited as before.
//
// Nothing of this is stored. Whoever leads next asks again; a loss has to be accepted again.
class Recoveries {
 public:
  // `before_loss` is called before a map is committed in which a segment begins empty; unless it returns OK
  // that is tried again later. `on_map` is told, within the visit, that a map was committed, and whether a
  // segment begins empty in it.
  Recoveries(Context& context, Membership& membership, Sessions& sessions,
             std::function<absl::Status()> before_loss, std::function<void(bool emptied)> on_map)
      : context_(context),
        membership_(membership),
        sessions_(sessions),
        before_loss_(std::move(before_loss)),
        on_map_(std::move(on_map)) {}

  // The segments that go on only if a loss is accepted, and whom they wait for. Accepts first what `request`
  // names, where it still waits in that epoch.
  v1::RecoverSegmentsReply Recover(const v1::RecoverSegmentsRequest& request);

  // Asks whom there is to ask, and commits what is decided. Call after a change of the map, and at NextTry().
  void Pump();
  absl::Time NextTry() const;
  void StopAll() {
    attempts_.clear();
    accepted_.clear();
  }

  // Segments that went on from a disk, since this coordinator started.
  uint64_t recovered() const { return recovered_; }

 private:
  // How far a log goes: epoch of the last record, its LSN.
  using Progress = std::pair<uint64_t, uint64_t>;
  struct Attempt {
    uint64_t epoch = 0;                    // the one to be replaced
    std::map<uint32_t, uint64_t> members;  // shards, and the starts that are asked
    // Shards that live and were no members, and their starts: asked where no member has anything and the loss
    // was accepted. nullopt: not asked.
    std::optional<std::map<uint32_t, uint64_t>> others;
    std::map<uint32_t, Progress> found;
    std::set<uint32_t> under_way;
    absl::Time next_ask = absl::InfinitePast();
    absl::Time lost_at = absl::InfiniteFuture();  // what is under way

    Progress Best() const;
    // The start that is asked of this shard; nullopt: none is.
    std::optional<uint64_t> Asked(uint32_t shard) const;
  };
  // What is committed at once.
  struct Decisions {
    v1::Map map;
    uint64_t ready = 0;
    std::set<uint32_t> nowhere;    // nothing was found of them, and no loss was accepted
    std::set<uint32_t> emptied;    // these begin empty …
    std::set<uint32_t> fell_back;  // … these go on from what somebody kept of an earlier configuration …
    std::set<uint32_t> lack;       // … and these from what those had that were not given up
  };

  const v1::SegmentConfig& ConfigOf(uint32_t segment) const;
  Progress ProgressOf(const v1::FenceReply::Segment& answer) const;
  // nullopt: it goes on by itself, or serves.
  std::optional<v1::RecoverSegmentsReply::Segment> Waiting(uint32_t segment) const;
  bool Accepted(uint32_t segment) const;
  void Accept(uint32_t segment);
  // It was started again, and lives: its disk can be asked.
  bool CanBeAsked(const v1::Member& member) const;
  // The attempts are those of the segments to be recovered, and of the newest starts of their members.
  void Renew();
  // Where a loss was accepted, without those that were given up then and have not come back.
  std::map<uint32_t, uint64_t> MembersNow(uint32_t segment) const;
  void Ask();
  void OnAnswer(uint32_t shard, uint64_t incarnation, const std::vector<uint32_t>& asked,
                const absl::StatusOr<v1::FenceReply>& reply);
  // Of the shards that live, of these or, if there are none, of all, the one that is primary of the fewest
  // segments of `map`; nullopt: none lives.
  std::optional<v1::Member> LeastBusy(const v1::Map& map, const std::set<uint32_t>& among) const;
  void CommitReady();
  void Decide(uint32_t segment, Attempt& attempt, Decisions& decisions);
  // True: all have answered, or ended meanwhile.
  bool AskOthers(Attempt& attempt) const;
  // The jobs lack what was given up, for good.
  void MarkJobs(const Decisions& decisions, Changes& changes) const;

  Context& context_;
  Membership& membership_;
  Sessions& sessions_;
  const std::function<absl::Status()> before_loss_;
  const std::function<void(bool)> on_map_;
  std::map<uint32_t, Attempt> attempts_;  // by segment
  struct Loss {
    uint64_t epoch = 0;
    std::set<uint32_t> given_up;  // shards that were awaited when it was accepted
  };
  std::map<uint32_t, Loss> accepted_;  // by segment
  uint64_t recovered_ = 0;
};

}  // namespace paceline::coordinator
