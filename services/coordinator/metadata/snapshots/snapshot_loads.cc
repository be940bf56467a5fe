// Loads snapshots into new jobs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/snapshot/manifest.h"
#include "libs/wire/schema_codec.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/snapshots/snapshots.h"

namespace paceline::coordinator {

void Snapshots::Start() {
  LoadAgain();
}

void Snapshots::LoadAgain() {
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.has_load() && !job.deleting()) StartLoad(job);
  }
}

bool Snapshots::IsLoading(absl::string_view job) const {
  return context_.facts.FindLoading(job) != nullptr;
}

Ticket Snapshots::Restore(const v1::RestoreSnapshotRequest& request, absl::Time deadline,
                          Done<v1::RestoreSnapshotReply> done) {
  if (const absl::Status kept = CheckKept(); !kept.ok()) return sessions_.Tell(done, {kept});
  if (context_.facts.map() == nullptr) {
    return sessions_.Tell(done, {absl::UnavailableError("the cluster has not started; start its shards")});
  }
  if (const absl::Status lost = membership_.CheckNothingLost(); !lost.ok())
    return sessions_.Tell(done, {lost});
  if (restores_.size() >= context_.options.limits.requests) {
    return sessions_.Tell(done, {TooMany("requests", context_.options.limits.requests, "try again later")});
  }
  const Ticket ticket = sessions_.NewTicket();
  restores_[ticket] = {
      .job = 0, .deadline = sessions_.DeadlineOf(deadline, request.timeout_ms()), .done = std::move(done)};
  OnFiles<absl::StatusOr<v1::SnapshotManifest>>(
      [name = request.snapshot()](snapshot::Files& files) { return snapshot::ReadManifest(files, name); },
      [this, ticket, request](const absl::StatusOr<v1::SnapshotManifest>& manifest) {
        BeginLoad(ticket, request, manifest);
      });
  return ticket;
}

void Snapshots::BeginLoad(Ticket ticket, const v1::RestoreSnapshotRequest& request,
                          const absl::StatusOr<v1::SnapshotManifest>& manifest) {
  const auto waiting = restores_.find(ticket);
  if (waiting == restores_.end()) return;  // given up meanwhile
  const auto fail = [&](const absl::Status& why) {
    const Done<v1::RestoreSnapshotReply> done = std::move(waiting->second.done);
    restores_.erase(waiting);
    sessions_.Tell(done, {why});
  };
  if (!manifest.ok()) return fail(manifest.status());
  const std::string& name = request.job().empty() ? manifest->job() : request.job();
  if (const JobRecord* loading = context_.facts.FindLoading(name);
      loading != nullptr && !loading->deleting()) {
    if (loading->load().snapshot() != request.snapshot()) {
      return fail(
          absl::UnavailableError(absl::StrCat("job '", name, "': another snapshot, '",
                                              loading->load().snapshot(), "', is being loaded; try again")));
    }
    waiting->second.job = loading->id();  // a repeated request
    return;
  }
  const absl::StatusOr<uint32_t> replaces = Replaced(name, request.replace());
  if (!replaces.ok()) return fail(replaces.status());
  uint32_t job = 0;
  if (const absl::Status begun = CommitLoad(name, *manifest, *replaces, &job); !begun.ok())
    return fail(begun);
  waiting->second.job = job;
  StartLoad(*context_.facts.FindJob(job));
  membership_.Pump();
}

// The job to be replaced; 0: none.
absl::StatusOr<uint32_t> Snapshots::Replaced(const std::string& name, bool replace) const {
  ABSL_RETURN_IF_ERROR(CheckName("job", name, context_.options.limits.name_bytes));
  const JobRecord* job = context_.facts.FindJob(name);
  if (job == nullptr) return 0;
  if (job->deleting()) {
    return absl::UnavailableError(absl::StrCat("job '", name, "' is being deleted; try again"));
  }
  if (!replace) {
    return absl::AlreadyExistsError(
        absl::StrCat("job '", name, "' exists; restore into a job of another name, or replace it"));
  }
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() != job->id() || session.state() == SessionRecord::CLOSED) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job '", name, "' has an open session: ", id, " (", session.client(),
                     "); close those it has, or wait until they are evicted"));
  }
  return job->id();
}

absl::Status Snapshots::CommitLoad(const std::string& name, const v1::SnapshotManifest& manifest,
                                   uint32_t replaces, uint32_t* job) {
  const Limits& limits = context_.options.limits;
  if (context_.facts.jobs().size() >= limits.jobs) return TooMany("jobs", limits.jobs, "delete one");
  const size_t tables = context_.facts.tables().size() + context_.facts.drops().size() +
                        static_cast<size_t>(manifest.tables_size());
  if (tables > limits.tables) return TooMany("tables", limits.tables, "drop one");
  Changes changes;
  changes.counters = context_.facts.counters();
  CountersRecord& counters = *changes.counters;
  counters.set_job(counters.job() + 1);
  counters.set_cut(counters.cut() + 1);
  counters.set_catalogue_version(counters.catalogue_version() + 1);
  JobRecord record;
  record.set_id(counters.job());
  record.set_name(name);
  record.set_had_workers(true);  // its clocks have advanced
  record.set_data_lost(manifest.data_lost());
  LoadRecord& load = *record.mutable_load();
  load.set_id(counters.cut());
  load.set_snapshot(manifest.name());
  load.set_clock(manifest.clock());
  load.set_replaces(replaces);
  for (const v1::Table& from : manifest.tables()) {
    // Checked here, since the manifest comes from outside.
    if (const auto schema = wire::SchemaFromProto(from.schema()); !schema.ok()) {
      return absl::Status(schema.status().code(),
                          absl::StrCat(manifest.name(), "/manifest.json: table '", from.name(),
                                       "': ", schema.status().message()));
    }
    v1::Table& to = changes.tables.emplace_back(from);
    counters.set_table(counters.table() + 1);
    to.set_id(counters.table());
    to.set_job(record.id());
    to.clear_rule_change();
    to.clear_rule_clock();
    load.add_from(from.id());
    load.add_to(to.id());
  }
  changes.jobs.push_back(record);
  *job = record.id();
  return context_.Commit(changes);
}

void Snapshots::StartLoad(const JobRecord& job) {
  v1::JobChange change;
  change.set_action(v1::JobChange::LOAD_JOB);
  change.set_job(job.id());
  change.set_cut(job.load().id());
  change.set_snapshot(job.load().snapshot());
  change.set_clock(job.load().clock());
  for (int i = 0; i < job.load().to_size(); ++i) {
    const v1::Table* table = context_.facts.FindTable(job.load().to(i));
    if (table == nullptr) continue;
    v1::JobChange::Load& load = *change.add_loads();
    load.set_from(job.load().from(i));
    *load.mutable_to() = *table;
  }
  fan_outs_.Start(std::move(change));
}

void Snapshots::FinishLoad(uint32_t id) {
  const JobRecord* found = context_.facts.FindJob(id);
  if (found == nullptr || !found->has_load()) return fan_outs_.Stop(Subject::Load(id));
  const LoadRecord load = found->load();
  Changes changes;
  const JobRecord* replaced = context_.facts.FindJob(load.replaces());
  if (replaced != nullptr && !replaced->deleting()) {
    JobRecord& gone = changes.jobs.emplace_back(*replaced);
    gone.set_name(absl::StrCat(gone.name(), ":replaced-", gone.id()));
    gone.set_deleting(true);
  }
  JobRecord& job = changes.jobs.emplace_back(*found);
  job.clear_load();
  // The schedule of the replaced job continues for the new one, counted from the clock where that begins.
  if (replaced != nullptr && !replaced->deleting() && replaced->has_schedule()) {
    ScheduleRecord& schedule = *job.mutable_schedule();
    schedule = replaced->schedule();
    schedule.set_since_clock(load.clock());
    if (context_.options.snapshots != nullptr) {
      schedule.set_since_unix_s(context_.options.snapshots->UnixSeconds());
    }
  }
  if (!context_.Commit(changes).ok()) return;  // the fan-out calls again after a pause
  fan_outs_.Stop(Subject::Load(id));
  workers_.Learn(id, load.clock());
  ++counters_.loaded;
  v1::RestoreSnapshotReply reply;
  reply.set_job(id);
  reply.set_clock(load.clock());
  AnswerRestores(id, reply);
}

absl::StatusOr<v1::DeleteJobReply> Snapshots::GiveUpLoad(absl::string_view job) {
  const std::string name(job);
  FailLoad(context_.facts.FindLoading(name)->id(), "it was given up: the job was deleted");
  if (IsLoading(name))
    return absl::UnavailableError(absl::StrCat("job '", name, "': the store failed; try again"));
  return v1::DeleteJobReply();
}

void Snapshots::FailLoad(uint32_t id, const std::string& why) {
  Changes changes;
  JobRecord& job = changes.jobs.emplace_back(*context_.facts.FindJob(id));
  job.set_name(absl::StrCat(job.name(), ":not-loaded-", id));
  job.set_deleting(true);
  job.clear_load();
  if (!context_.Commit(changes).ok()) return;  // the fan-out meets the same failure again
  fan_outs_.Stop(Subject::Load(id));
  ++counters_.failed;
  AnswerRestores(id, absl::FailedPreconditionError(absl::StrCat("the snapshot was not restored: ", why)));
}

void Snapshots::AnswerRestores(uint32_t job, const absl::StatusOr<v1::RestoreSnapshotReply>& answer) {
  std::vector<Done<v1::RestoreSnapshotReply>> told;
  for (auto it = restores_.begin(); it != restores_.end();) {
    if (it->second.job != job) {
      ++it;
      continue;
    }
    told.push_back(std::move(it->second.done));
    it = restores_.erase(it);
  }
  for (const auto& done : told) sessions_.Tell(done, answer);
}

}  // namespace paceline::coordinator
