#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/clock_proposal.h"
#include "services/coordinator/metadata/changes/fan_out.h"
#include "services/coordinator/metadata/changes/subject.h"
#include "services/coordinator/metadata/changes/waiters.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/sessions/sessions.h"
#include "services/coordinator/metadata/sessions/workers.h"

namespace paceline::coordinator {

// Changes of a job's tables and of the job itself: drops tables, changes their rates, deletes jobs.
//
// Each change is an intent: it is committed first, then carried to every segment by a fan-out, then
// completed. The next leader finds the intent in the store and takes it up.
//
// Dropping: the catalogue without the table is committed before any segment is told, so no client with a
// current catalogue names the table. Segments refuse late requests for it.
//
// Changing rates: the coordinator proposes a clock beyond all that it knows. Each segment accepts it unless
// one of its workers is there already; then the next proposal uses what was learned. A segment in which the
// earlier clock has begun by then keeps it: rates do not go back. Without workers there is no clock to agree
// on: each segment changes at once, and no session joins until all have changed. A bound that follows the
// workers' waiting (Bounds) changes in the same way.
//
// Deleting: first all sessions are closed everywhere, then tables and clocks are removed, then the name is
// free.
class JobChanges {
 public:
  JobChanges(Context& context, Membership& membership, Sessions& sessions, Workers& workers,
             FanOuts& fan_outs, Waiters& waiters)
      : context_(context),
        membership_(membership),
        sessions_(sessions),
        workers_(workers),
        fan_outs_(fan_outs),
        waiters_(waiters) {}

  // Takes up every intent found in the store. Call it before anything else; and again after a segment has
  // begun empty, since such a segment has lost what it was told.
  void Start();

  // -- requests (coordinator.proto) --
  absl::StatusOr<Ticket> DropTable(const v1::DropTableRequest& request, absl::Time deadline,
                                   const Done<v1::DropTableReply>& done);
  absl::StatusOr<Ticket> ChangeRule(const v1::ChangeRuleRequest& request, absl::Time deadline,
                                    const Done<v1::ChangeRuleReply>& done);
  // The id of the job that a request means.
  absl::StatusOr<uint32_t> Meant(const v1::DeleteJobRequest& request) const;
  // REQUIRES: `job` is what the request means, and no snapshot is being loaded into it.
  absl::StatusOr<Ticket> DeleteJob(uint32_t job, const v1::DeleteJobRequest& request, absl::Time deadline,
                                   const Done<v1::DeleteJobReply>& done);

  // Begins to agree on this bound for workers that read the table by one that follows, unless another change
  // of the table is under way or to come.
  void ChangeBound(const v1::Table& table, uint32_t bound);

  // -- events --
  // The fan-out of a table or a job has reached every segment.
  void OnNamedEverywhere(Subject subject);
  void OnClockPassed(const v1::Change& change, uint64_t clock);
  void OnLate(Subject subject);
  // Call on time, and when sessions may have been closed.
  void PumpDeletions();

  // True if no session may become a worker of the job now.
  bool HoldsJoins(uint32_t job) const;
  // Changes that take long, one sentence each.
  std::vector<std::string> Problems() const;

 private:
  // -- job_changes.cc --
  // The job that a request is for; kInvalidArgument unless exactly one of the two names it.
  absl::StatusOr<uint32_t> JobOf(uint64_t session, const std::string& token, const std::string& job) const;
  // kPermissionDenied if the table is another job's; kNotFound if it does not exist.
  absl::StatusOr<const v1::Table*> TableOf(uint32_t job, uint32_t table) const;
  absl::StatusOr<Ticket> Await(Subject subject, absl::Time deadline, Waiters::Answer answer);
  absl::Status ExpiredStatus(Subject subject) const;
  std::string Describe(Subject subject) const;

  // -- table_drops.cc --
  absl::Status BeginDrop(const v1::Table& table);
  void StartDrop(const TableDropRecord& drop);
  void FinishDrop(uint32_t table);

  // -- rule_changes.cc --
  absl::Status CheckRates(const v1::Table& table, const v1::Rule& rule) const;
  absl::Status CheckBound(const v1::Table& table, uint32_t bound) const;
  // The change that a request asks for, without its number.
  absl::StatusOr<RuleChangeRecord> Decide(const v1::Table& table, const v1::ChangeRuleRequest& request) const;
  absl::Status BeginRuleChange(RuleChangeRecord change);
  void StartRuleChange(const RuleChangeRecord& change);
  void FinishRuleChange(uint32_t table);
  v1::ChangeRuleReply RuleReply(uint32_t table) const;

  // -- job_deletions.cc --
  absl::Status CheckNoSessions(const JobRecord& job) const;
  void PumpDeletion(uint32_t job);
  absl::Status BeginClosing(JobRecord job);
  void StartClosing(const JobRecord& job);
  void FinishDeletion(uint32_t job);

  Context& context_;
  Membership& membership_;
  Sessions& sessions_;
  Workers& workers_;
  FanOuts& fan_outs_;
  Waiters& waiters_;
  std::map<uint32_t, ClockProposal> proposals_;  // those refused, of tables' changes under way
};

}  // namespace paceline::coordinator
