#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/clock_proposal.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/sessions/sessions.h"

namespace paceline::coordinator {

// Sessions as workers of their job's clocks: joining, alone or together, and finishing.
//
// The coordinator proposes a start clock from the largest min clock that it knows. If a segment is past it
// already, the sessions that were to join there are evicted, and told to join again as new sessions. (Some
// segments may have logged their join at the refused clock, so these sessions can start at no other.) The
// next proposal uses the clocks that were learned.
//
// A joint start: sessions that state W > 1 workers wait for each other, and join W at a time at one clock.
// All are answered when the last of them is a worker everywhere; one that ends before that is no longer
// waited for. Once W have started together, and while one of them is at work, a session that states the same
// W is a latecomer and joins at once.
class Workers {
 public:
  Workers(Context& context, Membership& membership, Sessions& sessions, Waiters& waiters);

  absl::StatusOr<Ticket> Join(const v1::JoinJobRequest& request, absl::Time deadline,
                              const Done<v1::JoinJobReply>& done);
  absl::StatusOr<Ticket> Finish(const v1::FinishWorkerRequest& request, absl::Time deadline,
                                const Done<v1::FinishWorkerReply>& done);

  // Notes the jobs' clocks that a shard reports.
  void OnBeat(const v1::BeatRequest& beat);
  // The session's JOIN has reached every segment.
  void OnJoinedEverywhere(const SessionRecord& session);
  void OnJoinRefused(uint64_t session, uint32_t job, uint32_t segment, uint64_t min_clock);
  void OnMoved(const SessionRecord& session);
  void OnTime();

  // True if some session is a member of the job's clocks somewhere.
  bool AnyAtWork(uint32_t job) const;
  // The largest clock that a worker of the job is known to be at; at least the job's min clock.
  uint64_t NewestClock(uint32_t job) const;
  // While `held` is true for a job none of its sessions starts.
  void HoldJoinsIf(std::function<bool(uint32_t job)> held) { held_ = std::move(held); }
  // The job's clocks have reached at least `min_clock`.
  void Learn(uint32_t job, uint64_t min_clock) {
    clocks_[job].min_clock = std::max(clocks_[job].min_clock, min_clock);
  }
  // The job is gone.
  void Forget(uint32_t job) { clocks_.erase(job); }

  // Incomplete joint starts, one sentence each.
  std::vector<std::string> Problems() const;

 private:
  // A session that waits for the others of a joint start, or until the clocks are known.
  struct Wish {
    uint32_t workers = 1;
    std::optional<uint32_t> rank;
  };
  // Soft state of a job: a restart of the coordinator forgets it.
  struct JobClocks {
    uint64_t min_clock = 0;  // the largest known of any segment
    ClockProposal proposal;
  };

  // True if the session is, or may be, a member of its job's clocks somewhere.
  static bool AtWork(const SessionRecord& session);
  absl::Status CheckJoin(const v1::JoinJobRequest& request, const SessionRecord& session) const;
  absl::Status CheckWish(const SessionRecord& session, const Wish& wish) const;
  absl::Status CheckRank(const SessionRecord& session, uint32_t rank) const;
  absl::Status CheckSeals(const v1::FinishWorkerRequest& request) const;
  v1::JoinJobReply ReplyTo(uint64_t session) const;
  void Prune(uint32_t job);
  void TryStart(uint32_t job);
  size_t Needed(uint32_t job) const;
  void StartTogether(uint32_t job, size_t count);
  uint64_t StartClock(uint32_t job) const;
  std::set<uint32_t> RanksTaken(uint32_t job) const;
  void AnswerGroup(const SessionRecord& member);
  std::string DescribeWait(const SessionRecord& session) const;
  std::string DescribeJointStart(uint32_t job) const;

  Context& context_;
  Membership& membership_;
  Sessions& sessions_;
  Waiters& waiters_;
  std::map<uint32_t, std::map<uint64_t, Wish>> waiting_;  // by job, by session
  std::map<uint32_t, JobClocks> clocks_;
  std::function<bool(uint32_t job)> held_ = [](uint32_t) { return false; };
};

}  // namespace paceline::coordinator
