// Deletes jobs: their sessions, then their tables and clocks, then their names.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/nonces.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/jobs/job_changes.h"

namespace paceline::coordinator {
namespace {

constexpr size_t kClosedAtOnceMax = 256;  // in one commit

bool IsLive(const SessionRecord& session) {
  return session.state() != SessionRecord::CLOSING && session.state() != SessionRecord::CLOSED;
}

}  // namespace

absl::StatusOr<uint32_t> JobChanges::Meant(const v1::DeleteJobRequest& request) const {
  const NoncesRecord::Begun* first = FindNonce(context_.facts.nonces(), request.nonce());
  const uint32_t id = first != nullptr ? first->job() : request.job_id();
  if (first != nullptr && request.job_id() != 0 && id != request.job_id()) {
    return absl::InvalidArgumentError(absl::StrCat("nonce: an earlier request about job ", id,
                                                   " bears it; draw another one for job ", request.job_id()));
  }
  if (id != 0 && !Planted(Bug::kDeleteByName)) return id;
  ABSL_RETURN_IF_ERROR(CheckName("job", request.job(), context_.options.limits.name_bytes));
  // A load under this name is given up first; a job that it was to replace stays.
  if (const JobRecord* loading = context_.facts.FindLoading(request.job())) return loading->id();
  return JobOf(/*session=*/0, /*token=*/"", request.job());
}

absl::StatusOr<Ticket> JobChanges::DeleteJob(uint32_t id, const v1::DeleteJobRequest& request,
                                             absl::Time deadline, const Done<v1::DeleteJobReply>& done) {
  const JobRecord* job = context_.facts.FindJob(id);
  if (id > context_.facts.counters().job()) {
    return absl::NotFoundError(absl::StrCat("job_id: ", id, " was never given to a job; list the jobs"));
  }
  if (job == nullptr) return waiters_.Tell(done, {v1::DeleteJobReply()});  // it was deleted before
  if (!job->deleting() && job->name() != request.job()) {
    return absl::InvalidArgumentError(absl::StrCat("job: '", request.job(), "'; job ", id, " is '",
                                                   job->name(), "'; name the one that you mean"));
  }
  if (!job->deleting() && !request.force()) ABSL_RETURN_IF_ERROR(CheckNoSessions(*job));
  if (!job->deleting() || request.nonce() != 0) {
    Changes changes;
    changes.jobs.push_back(*job);
    changes.jobs.back().set_deleting(true);
    changes.nonces = With(context_.facts.nonces(), request.nonce(), id);
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
  job.set_change(context_.facts.NumberIn(changes));
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
  v1::Change change = ChangeOf(v1::Subject::JOB, job.id(), job.id(), job.change());
  *change.mutable_close()->mutable_tables() = job.closing_tables();
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
