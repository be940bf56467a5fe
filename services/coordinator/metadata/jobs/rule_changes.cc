// Changes rates, and bounds that follow the workers' waiting, while the job trains: chooses the clock, and
// another one if it is refused.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/wire/schema_codec.h"
#include "services/coordinator/metadata/jobs/job_changes.h"

namespace paceline::coordinator {
namespace {

constexpr uint64_t kClockMax = uint64_t{1} << 62;

bool Same(const v1::Rule& a, const v1::Rule& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

// True if the table's last change is what the request asks for.
bool IsDone(const v1::Table& table, const v1::ChangeRuleRequest& request) {
  if (!Same(table.schema().rule(), request.rule())) return false;
  if (request.bound() != 0 && request.bound() != table.bound()) return false;
  if (request.now()) return table.rule_clock() == 0;
  return request.when_case() != v1::ChangeRuleRequest::kAtClock || table.rule_clock() >= request.at_clock();
}

}  // namespace

bool JobChanges::HoldsJoins(uint32_t job) const {
  return std::ranges::any_of(context_.facts.rule_changes(), [&](const auto& entry) {
    const v1::Table* table = context_.facts.FindTable(entry.first);
    return entry.second.hold_joins() && table != nullptr && table->job() == job;
  });
}

absl::Status JobChanges::CheckRates(const v1::Table& table, const v1::Rule& rule) const {
  ABSL_ASSIGN_OR_RETURN(const table::Schema before, wire::SchemaFromProto(table.schema()));
  ABSL_ASSIGN_OR_RETURN(const table::Rule to, wire::RuleFromProto(rule));
  ABSL_RETURN_IF_ERROR(table::CheckRuleChange(before.rule, to));
  table::Schema after = before;
  after.rule = to;
  return table::Validate(after);
}

absl::Status JobChanges::CheckBound(const v1::Table& table, uint32_t bound) const {
  if (bound == 0) return absl::OkStatus();
  if (table.bound_max() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "bound: ", bound, "; no worker reads the table by a bound that follows (Ssp::adaptive, ssp:auto)"));
  }
  if (bound > table.bound_max()) {
    return absl::InvalidArgumentError(absl::StrCat("bound: ", bound, "; expected at most ", table.bound_max(),
                                                   ", which its workers allow"));
  }
  return membership_.CheckSpoken(2, "a bound that follows");
}

void JobChanges::ChangeBound(const v1::Table& table, uint32_t bound) {
  const bool to_come = table.rule_clock() > workers_.NewestClock(table.job());
  if (to_come || context_.facts.FindRuleChange(table.id()) != nullptr) return;
  if (!membership_.CheckMayGiveIds().ok() || !CheckBound(table, bound).ok()) return;
  v1::ChangeRuleRequest request;
  *request.mutable_rule() = table.schema().rule();
  request.set_bound(bound);
  const absl::StatusOr<RuleChangeRecord> change = Decide(table, request);
  if (change.ok()) (void)BeginRuleChange(*change);  // if the commit fails the policy asks again
}

absl::StatusOr<Ticket> JobChanges::ChangeRule(const v1::ChangeRuleRequest& request, absl::Time deadline,
                                              const Done<v1::ChangeRuleReply>& done) {
  ABSL_ASSIGN_OR_RETURN(const uint32_t job, JobOf(request.session(), request.token(), request.job()));
  ABSL_ASSIGN_OR_RETURN(const v1::Table* found, TableOf(job, request.table()));
  const v1::Table& table = *found;
  absl::Status wrong = CheckRates(table, request.rule());
  wrong.Update(CheckBound(table, request.bound()));
  if (!wrong.ok())
    return absl::Status(wrong.code(), absl::StrCat("table '", table.name(), "': ", wrong.message()));
  const uint32_t id = table.id();
  const RuleChangeRecord* under_way = context_.facts.FindRuleChange(id);
  const bool other =
      under_way != nullptr && (!Same(under_way->rule(), request.rule()) ||
                               (request.bound() != 0 && request.bound() != under_way->bound()));
  if (other) {
    return absl::UnavailableError(absl::StrCat(
        "table '", table.name(), "': another change of its rates or bound is being agreed; try again"));
  }
  if (under_way == nullptr) {
    if (IsDone(table, request)) return waiters_.Tell(done, {RuleReply(id)});
    ABSL_RETURN_IF_ERROR(membership_.CheckMayGiveIds());
    ABSL_ASSIGN_OR_RETURN(const RuleChangeRecord change, Decide(table, request));
    ABSL_RETURN_IF_ERROR(BeginRuleChange(change));
  }
  return Await(Subject::Table(id), deadline,
               waiters_.Telling<v1::ChangeRuleReply>(done, [this, id] { return RuleReply(id); }));
}

absl::StatusOr<RuleChangeRecord> JobChanges::Decide(const v1::Table& table,
                                                    const v1::ChangeRuleRequest& request) const {
  const uint64_t known = workers_.NewestClock(table.job());
  const uint64_t wished = request.at_clock();
  if (wished > kClockMax) {
    return absl::InvalidArgumentError(absl::StrCat("at_clock: ", wished, "; expected at most 2^62"));
  }
  if (table.rule_clock() > known && wished > table.rule_clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "table '", table.name(), "': its rates or bound change at clock ", table.rule_clock(),
        " already, which is not reached; a change at a later clock has to wait until then, an earlier one "
        "takes its place"));
  }
  RuleChangeRecord change;
  change.set_table(table.id());
  change.set_number(table.rule_change() + 1);
  *change.mutable_rule() = request.rule();
  change.set_bound(request.bound() != 0 ? request.bound() : table.bound());
  const bool at_work = workers_.AnyAtWork(table.job());
  if (request.now() || (!at_work && wished <= known)) {
    change.set_at_once(true);
    change.set_hold_joins(!at_work);
  } else {
    change.set_clock(at_work ? std::max(wished, ClockProposal().Beyond(known)) : wished);
  }
  return change;
}

absl::Status JobChanges::BeginRuleChange(RuleChangeRecord change) {
  Changes changes;
  change.set_change(context_.facts.NumberIn(changes));
  changes.rule_changes.push_back(change);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  StartRuleChange(change);
  return absl::OkStatus();
}

void JobChanges::StartRuleChange(const RuleChangeRecord& record) {
  const v1::Table& table = *context_.facts.FindTable(record.table());
  v1::Change change = ChangeOf(v1::Subject::TABLE, table.id(), table.job(), record.change());
  v1::Change::ChangeRule& rule = *change.mutable_rule();
  *rule.mutable_table() = table;
  rule.set_number(record.number());
  *rule.mutable_rule() = record.rule();
  rule.set_clock(record.clock());
  rule.set_at_once(record.at_once());
  rule.set_bound(record.bound());
  fan_outs_.Start(std::move(change));
}

void JobChanges::OnClockPassed(const v1::Change& change, uint64_t clock) {
  const v1::Change::ChangeRule& refused = change.rule();
  const RuleChangeRecord* under_way = context_.facts.FindRuleChange(refused.table().id());
  // The answer may belong to an earlier proposal.
  const bool current = under_way != nullptr && under_way->number() == refused.number() &&
                       under_way->clock() == refused.clock();
  if (!current) return;
  RuleChangeRecord next = *under_way;
  ClockProposal& proposal = proposals_[next.table()];
  proposal.Refused();
  const uint64_t known = std::max(clock, workers_.NewestClock(change.job()));
  next.set_clock(proposal.Beyond(known));
  (void)BeginRuleChange(next);  // if the commit fails the fan-out is refused again, after a pause
}

void JobChanges::FinishRuleChange(uint32_t id) {
  const RuleChangeRecord* change = context_.facts.FindRuleChange(id);
  const v1::Table* before = context_.facts.FindTable(id);
  if (change == nullptr || before == nullptr) return fan_outs_.Stop(Subject::Table(id));
  if (!membership_.CheckMayGiveIds().ok()) return;  // the fan-out calls again after a pause
  v1::Table table = *before;
  const bool rates_begun =
      before->only_bound() || before->rule_clock() <= workers_.NewestClock(before->job());
  const bool only_bound =
      rates_begun && Same(before->schema().rule(), change->rule()) && before->bound() != change->bound();
  only_bound ? table.set_only_bound(true) : table.clear_only_bound();
  if (!table.has_created_rule()) *table.mutable_created_rule() = table.schema().rule();
  *table.mutable_schema()->mutable_rule() = change->rule();
  table.set_rule_change(change->number());
  change->bound() != 0 ? table.set_bound(change->bound()) : table.clear_bound();
  table.set_rule_clock(change->at_once() ? 0 : change->clock());
  Changes changes;
  changes.counters = context_.facts.counters();
  changes.counters->set_catalogue_version(changes.counters->catalogue_version() + 1);
  changes.tables.push_back(table);
  changes.finished_rule_changes.push_back(id);
  if (!context_.Commit(changes).ok()) return;  // the fan-out calls again after a pause
  proposals_.erase(id);
  fan_outs_.Stop(Subject::Table(id));
  table.only_bound() ? context_.probe.BoundChanged(table) : context_.probe.RatesChanged(table);
  waiters_.AnswerAll(Subject::Table(id), absl::OkStatus());
  membership_.Pump();
  workers_.OnTime();  // held sessions may join now
}

v1::ChangeRuleReply JobChanges::RuleReply(uint32_t table) const {
  v1::ChangeRuleReply reply;
  *reply.mutable_table() = *context_.facts.FindTable(table);
  reply.set_catalogue_version(context_.facts.counters().catalogue_version());
  return reply;
}

}  // namespace paceline::coordinator
