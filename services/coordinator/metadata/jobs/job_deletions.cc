// Deletes jobs: their sessions, then their tables and clocks, then their names.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/jobs/job_changes.h"

namespace paceline::coordinator {
namespace {

constexpr size_t kClosedAtOnceMax = 256;  // in one commit

bool IsLive(const SessionRecord& session) {
  return session.state() != SessionRecord::CLOSING && session.state() != SessionRecord::CLOSED;
}

}  // namespace

absl::StatusOr<Ticket> JobChanges::DeleteJob(const v1::DeleteJobRequest& request, absl::Time deadline,
                                             const Done<v1::DeleteJobReply>& done) {
  ABSL_RETURN_IF_ERROR(CheckName("job", request.job(), context_.options.limits.name_bytes));
  ABSL_ASSIGN_OR_RETURN(const uint32_t id, JobOf(/*session=*/0, /*token=*/"", request.job()));
  const JobRecord& job = *context_.facts.FindJob(id);
  if (!job.deleting()) {
    if (!request.force()) ABSL_RETURN_IF_ERROR(CheckNoSessions(job));
    Changes changes;
    changes.jobs.push_back(job);
    changes.jobs.back().set_deleting(true);
    ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  }
  const absl::StatusOr<Ticket> ticket = Await(Subject::Job(id), deadline, waiters_.Telling(done));
  PumpDeletion(id);
  return ticket;
}

absl::Status JobChanges::CheckNoSessions(const JobRecord& job) const {
  constexpr size_t kNamedMax = 4;
  std::vector<std::string> named;
  size_t live = 0;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() != job.id() || !IsLive(session)) continue;
    if (++live <= kNamedMax) named.push_back(absl::StrCat(id, " (", session.client(), ")"));
  }
  if (live == 0) return absl::OkStatus();
  if (live > kNamedMax) named.emplace_back("…");
  return absl::FailedPreconditionError(
      absl::StrCat("job '", job.name(), "' has ", live, live == 1 ? " open session: " : " open sessions: ",
                   absl::StrJoin(named, ", "), "; close them, or delete the job with force"));
}

void JobChanges::PumpDeletions() {
  std::vector<uint32_t> jobs;
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.deleting() && !job.closing()) jobs.push_back(id);
  }
  for (const uint32_t job : jobs) PumpDeletion(job);
}

void JobChanges::PumpDeletion(uint32_t id) {
  const JobRecord* job = context_.facts.FindJob(id);
  if (job == nullptr || !job->deleting() || job->closing()) return;
  std::vector<SessionRecord> live;
  bool closing = false;
  for (const auto& [number, session] : context_.facts.sessions()) {
    if (session.job() != id || session.state() == SessionRecord::CLOSED) continue;
    closing = true;
    if (!IsLive(session) || live.size() == kClosedAtOnceMax) continue;
    SessionRecord& next = live.emplace_back(session);
    next.set_evicted(true);
    next.set_reason("its job was deleted");
  }
  // A commit that fails is tried again on time.
  if (!live.empty()) {
    (void)sessions_.BeginClosing(std::move(live), absl::FailedPreconditionError("the job was deleted"));
  } else if (!closing) {
    (void)BeginClosing(*job);
  }
}

absl::Status JobChanges::BeginClosing(JobRecord job) {
  ABSL_RETURN_IF_ERROR(membership_.CheckMayGiveIds());
  Changes changes;
  changes.counters = context_.facts.counters();
  std::vector<v1::Table> tables;
  for (const auto& [id, table] : context_.facts.tables()) {
    if (table.job() != job.id()) continue;
    tables.push_back(table);
    job.add_closing_tables(id);
    changes.forgotten_tables.push_back(id);
    changes.finished_rule_changes.push_back(id);
  }
  if (!tables.empty()) {
    changes.counters->set_catalogue_version(changes.counters->catalogue_version() + 1);
  }
  job.set_closing(true);
  changes.jobs.push_back(job);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  for (const v1::Table& table : tables) {
    context_.probe.TableDropped(table);
    proposals_.erase(table.id());
    fan_outs_.Stop(Subject::Table(table.id()));
    waiters_.AnswerAll(Subject::Table(table.id()),
                       absl::NotFoundError(absl::StrCat("table '", table.name(), "' went with its job")));
  }
  StartClosing(job);
  membership_.Pump();
  return absl::OkStatus();
}

void JobChanges::StartClosing(const JobRecord& job) {
  v1::JobChange change;
  change.set_action(v1::JobChange::CLOSE_JOB);
  change.set_job(job.id());
  *change.mutable_tables() = job.closing_tables();
  fan_outs_.Start(std::move(change));
}

void JobChanges::FinishDeletion(uint32_t id) {
  const JobRecord* found = context_.facts.FindJob(id);
  if (found == nullptr) return fan_outs_.Stop(Subject::Job(id));
  const JobRecord job = *found;
  Changes changes;
  changes.forgotten_jobs.push_back(id);
  if (!context_.Commit(changes).ok()) return;  // the fan-out calls again after a pause
  fan_outs_.Stop(Subject::Job(id));
  workers_.Forget(id);
  context_.probe.JobDeleted(job);
  waiters_.AnswerAll(Subject::Job(id), absl::OkStatus());
}

}  // namespace paceline::coordinator
