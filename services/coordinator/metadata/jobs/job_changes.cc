// Changes of tables and jobs: their requests, the waiting, and intents found after a restart.
#include "services/coordinator/metadata/jobs/job_changes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {

void JobChanges::Start() {
  for (const auto& [table, drop] : context_.facts.drops()) StartDrop(drop);
  for (const auto& [table, change] : context_.facts.rule_changes()) StartRuleChange(change);
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.closing()) StartClosing(job);
  }
}

absl::StatusOr<uint32_t> JobChanges::JobOf(uint64_t session, const std::string& token,
                                           const std::string& job) const {
  if ((session == 0) == job.empty()) {
    return absl::InvalidArgumentError("session, job: expected one of the two, and not both");
  }
  if (session != 0) {
    ABSL_ASSIGN_OR_RETURN(const SessionRecord* live, sessions_.FindLive(session, token));
    return live->job();
  }
  const JobRecord* named = context_.facts.FindJob(job);
  if (named != nullptr) return named->id();
  return absl::NotFoundError(absl::StrCat("job '", job, "' does not exist; see whether its name is right"));
}

absl::StatusOr<const v1::Table*> JobChanges::TableOf(uint32_t job, uint32_t table) const {
  const v1::Table* found = context_.facts.FindTable(table);
  if (found != nullptr && found->job() == job) return found;
  if (found != nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat("table: ", table, " is not of ", context_.facts.JobName(job),
                     " but of another job; a job changes its own tables only"));
  }
  const bool was = table != 0 && table <= context_.facts.counters().table();
  return absl::NotFoundError(absl::StrCat("table: ", table, was ? " was dropped" : " was never created",
                                          "; open a table by its name for the id it has now"));
}

// -- waiting --

absl::StatusOr<Ticket> JobChanges::Await(Subject subject, absl::Time deadline, Waiters::Answer answer) {
  return waiters_.Await(
      {.subject = subject, .deadline = deadline, .answer = std::move(answer), .expired = [this, subject] {
         return ExpiredStatus(subject);
       }});
}

absl::Status JobChanges::ExpiredStatus(Subject subject) const {
  std::string waits = fan_outs_.Waits(subject);
  if (waits.empty()) waits = "its sessions to be closed everywhere";
  return absl::DeadlineExceededError(
      absl::StrCat(Describe(subject), ": it waits for ", waits, "; it goes on, ask again"));
}

std::string JobChanges::Describe(Subject subject) const {
  const Facts& facts = context_.facts;
  const auto id = static_cast<uint32_t>(subject.id);
  if (subject.kind == Subject::Kind::kJob) {
    return absl::StrCat("the deletion of ", facts.JobName(id), " goes on");
  }
  if (const TableDropRecord* drop = facts.FindDrop(id)) {
    return absl::StrCat("table '", drop->name(), "' (", id, ") of ", facts.JobName(drop->job()),
                        " is not dropped everywhere");
  }
  const v1::Table* table = facts.FindTable(id);
  if (table == nullptr) return absl::StrCat("table ", id);
  return absl::StrCat("the rates of table '", table->name(), "' of ", facts.JobName(table->job()),
                      " have not changed everywhere");
}

void JobChanges::OnNamedEverywhere(Subject subject) {
  const auto id = static_cast<uint32_t>(subject.id);
  if (subject.kind == Subject::Kind::kJob) return FinishDeletion(id);
  context_.facts.FindDrop(id) != nullptr ? FinishDrop(id) : FinishRuleChange(id);
}

// Each is committed again with a new number; a failure is tried again.
void JobChanges::OnLate(Subject subject) {
  const auto id = static_cast<uint32_t>(subject.id);
  const Facts& facts = context_.facts;
  Changes changes;
  if (subject.kind == Subject::Kind::kJob) {
    const JobRecord* job = facts.FindJob(id);
    if (job == nullptr || !job->closing()) return;
    changes.jobs.push_back(*job);
    changes.jobs.back().set_change(facts.NumberIn(changes));
    if (context_.Commit(changes).ok()) StartClosing(*facts.FindJob(id));
  } else if (const TableDropRecord* drop = facts.FindDrop(id)) {
    changes.drops.push_back(*drop);
    changes.drops.back().set_change(facts.NumberIn(changes));
    if (context_.Commit(changes).ok()) StartDrop(*facts.FindDrop(id));
  } else if (const RuleChangeRecord* rates = facts.FindRuleChange(id)) {
    (void)BeginRuleChange(*rates);
  }
}

std::vector<std::string> JobChanges::Problems() const {
  std::vector<Subject> subjects;
  for (const auto& [table, drop] : context_.facts.drops()) subjects.push_back(Subject::Table(table));
  for (const auto& [table, change] : context_.facts.rule_changes()) subjects.push_back(Subject::Table(table));
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.closing()) subjects.push_back(Subject::Job(id));
  }
  std::vector<std::string> problems;
  for (const Subject& subject : subjects) {
    const absl::Duration since = context_.now - fan_outs_.Since(subject);
    if (since < FanOuts::kSlow) continue;
    problems.push_back(absl::StrCat(Describe(subject), " after ", Seconds(since), ": it waits for ",
                                    fan_outs_.Waits(subject)));
  }
  return problems;
}

}  // namespace paceline::coordinator
