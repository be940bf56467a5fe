// Drops tables.
#include <utility>

#include "libs/base/status.h"
#include "services/coordinator/metadata/jobs/job_changes.h"

namespace paceline::coordinator {

absl::StatusOr<Ticket> JobChanges::DropTable(const v1::DropTableRequest& request, absl::Time deadline,
                                             const Done<v1::DropTableReply>& done) {
  ABSL_ASSIGN_OR_RETURN(const uint32_t job, JobOf(request.session(), request.token(), request.job()));
  const uint32_t id = request.table();
  const auto reply = [this] {
    v1::DropTableReply dropped;
    dropped.set_catalogue_version(context_.facts.counters().catalogue_version());
    return dropped;
  };
  if (context_.facts.FindDrop(id) == nullptr) {
    const absl::StatusOr<const v1::Table*> table = TableOf(job, id);
    // A repeated request, after the drop was done.
    const bool was_dropped =
        absl::IsNotFound(table.status()) && id != 0 && id <= context_.facts.counters().table();
    if (was_dropped) return waiters_.Tell(done, {reply()});
    ABSL_RETURN_IF_ERROR(table.status());
    ABSL_RETURN_IF_ERROR(BeginDrop(**table));
  } else if (context_.facts.FindDrop(id)->job() != job) {
    return absl::PermissionDeniedError("table: it was another job's");
  }
  return Await(Subject::Table(id), deadline, waiters_.Telling<v1::DropTableReply>(done, reply));
}

absl::Status JobChanges::BeginDrop(const v1::Table& table) {
  ABSL_RETURN_IF_ERROR(membership_.CheckMayGiveIds());
  const v1::Table dropped = table;  // a copy, since the commit invalidates `table`
  TableDropRecord drop;
  drop.set_table(dropped.id());
  drop.set_job(dropped.job());
  drop.set_name(dropped.name());
  Changes changes;
  drop.set_change(context_.facts.NumberIn(changes));
  changes.counters->set_catalogue_version(changes.counters->catalogue_version() + 1);
  changes.forgotten_tables.push_back(dropped.id());
  changes.drops.push_back(drop);
  changes.finished_rule_changes.push_back(dropped.id());
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  proposals_.erase(dropped.id());
  context_.probe.TableDropped(dropped);
  waiters_.AnswerAll(Subject::Table(dropped.id()),
                     absl::NotFoundError(absl::StrCat("table '", dropped.name(), "' was dropped")));
  StartDrop(drop);
  membership_.Pump();
  return absl::OkStatus();
}

void JobChanges::StartDrop(const TableDropRecord& drop) {
  v1::Change change = ChangeOf(v1::Subject::TABLE, drop.table(), drop.job(), drop.change());
  change.mutable_drop()->set_name(drop.name());
  fan_outs_.Start(std::move(change));
}

void JobChanges::FinishDrop(uint32_t table) {
  Changes changes;
  changes.finished_drops.push_back(table);
  if (!context_.Commit(changes).ok()) return;  // the fan-out calls again after a pause
  fan_outs_.Stop(Subject::Table(table));
  waiters_.AnswerAll(Subject::Table(table), absl::OkStatus());
}

}  // namespace paceline::coordinator
