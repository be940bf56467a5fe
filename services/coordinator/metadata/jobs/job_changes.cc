// Changes of tables and jobs: their requests, the waiting, and intents found after a restart.
#include "services/coordinator/metadata/jobs/job_changes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// A change that takes longer is reported as a problem.
constexpr absl::Duration kSlow = absl::Seconds(3);

}  // namespace

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
    const absl::StatusOr<const SessionRecord*> live = sessions_.FindLive(session, token);
    if (!live.ok()) return live.status();
    return (*live)->job();
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

Ticket JobChanges::Await(Subject subject, absl::Time deadline, Answer answer) {
  const size_t limit = context_.options.limits.requests;
  if (waiting_.size() >= limit) {
    answer(TooMany("requests", limit, "try again later"));
    return 0;
  }
  const Ticket ticket = sessions_.NewTicket();
  waiting_.emplace(ticket, Waiting{.subject = subject, .deadline = deadline, .answer = std::move(answer)});
  return ticket;
}

void JobChanges::AnswerAll(Subject subject, const absl::Status& status) {
  std::vector<Answer> answers;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->second.subject != subject) {
      ++it;
      continue;
    }
    answers.push_back(std::move(it->second.answer));
    it = waiting_.erase(it);
  }
  for (const Answer& answer : answers) answer(status);
}

void JobChanges::AnswerEverything(const absl::Status& why) {
  for (auto& [ticket, waiting] : std::exchange(waiting_, {})) waiting.answer(why);
}

void JobChanges::Abandon(Ticket ticket) {
  auto waiting = waiting_.extract(ticket);
  if (!waiting.empty()) waiting.mapped().answer(absl::CancelledError("the client gave the call up"));
}

absl::Time JobChanges::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [ticket, waiting] : waiting_) next = std::min(next, waiting.deadline);
  return next;
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

void JobChanges::OnTime() {
  PumpDeletions();
  std::vector<std::pair<Answer, absl::Status>> answers;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const Waiting& waiting = it->second;
    absl::Status status;
    if (fan_outs_.Hopeless(waiting.subject)) status = membership_.CheckNothingLost();
    if (status.ok() && waiting.deadline <= context_.now) {
      std::string waits = fan_outs_.Waits(waiting.subject);
      if (waits.empty()) waits = "its sessions to be closed everywhere";
      status = absl::DeadlineExceededError(
          absl::StrCat(Describe(waiting.subject), ": it waits for ", waits, "; it goes on, ask again"));
    }
    if (status.ok()) {
      ++it;
      continue;
    }
    answers.emplace_back(std::move(it->second.answer), std::move(status));
    it = waiting_.erase(it);
  }
  for (const auto& [answer, status] : answers) answer(status);
}

void JobChanges::OnNamedEverywhere(Subject subject) {
  const auto id = static_cast<uint32_t>(subject.id);
  if (subject.kind == Subject::Kind::kJob) return FinishDeletion(id);
  context_.facts.FindDrop(id) != nullptr ? FinishDrop(id) : FinishRuleChange(id);
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
    if (since < kSlow) continue;
    problems.push_back(absl::StrCat(Describe(subject), " after ", Seconds(since), ": it waits for ",
                                    fan_outs_.Waits(subject)));
  }
  return problems;
}

}  // namespace paceline::coordinator
