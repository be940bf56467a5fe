// Loads snapshots into new jobs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/snapshot/manifest.h"
#include "libs/wire/schema_codec.h"
#include "services/coordinator/metadata/facts/nonces.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/snapshots/snapshots.h"

namespace paceline::coordinator {

void Snapshots::Start() {
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.has_load() && !job.deleting()) StartLoad(job);
  }
}

absl::StatusOr<Ticket> Snapshots::Restore(const v1::RestoreSnapshotRequest& request, absl::Time deadline,
                                          const Done<v1::RestoreSnapshotReply>& done) {
  ABSL_RETURN_IF_ERROR(CheckKept());
  const Restoring restoring{.request = request, .deadline = deadline, .done = done};
  if (FindNonce(context_.facts.nonces(), request.nonce()) != nullptr) {
    return AwaitLoad(/*ticket=*/0, restoring, v1::SnapshotManifest());  // it has begun, and needs none
  }
  if (context_.facts.map() == nullptr) {
    return absl::UnavailableError("the cluster has not started; start its shards");
  }
  ABSL_RETURN_IF_ERROR(membership_.CheckNothingLost());
  using Manifest = absl::StatusOr<v1::SnapshotManifest>;
  return RunErrand<v1::RestoreSnapshotReply, Manifest>(
      deadline, done,
      [name = request.snapshot()](snapshot::Files& files) { return snapshot::ReadManifest(files, name); },
      [this, restoring](Ticket ticket, const Manifest& manifest) {
        const absl::Status begun = AwaitLoad(ticket, restoring, manifest).status();
        if (!begun.ok()) waiters_.Tell(restoring.done, {begun});
      });
}

absl::StatusOr<Ticket> Snapshots::AwaitLoad(Ticket ticket, const Restoring& restoring,
                                            const absl::StatusOr<v1::SnapshotManifest>& manifest) {
  v1::RestoreSnapshotReply reply;
  if (const auto* begun = FindNonce(context_.facts.nonces(), restoring.request.nonce())) {
    reply.set_job(begun->job());
    reply.set_clock(begun->clock());
  } else {
    ABSL_RETURN_IF_ERROR(manifest.status());
    ABSL_ASSIGN_OR_RETURN(const uint32_t job, BeginLoad(restoring.request, *manifest));
    reply.set_job(job);
    reply.set_clock(manifest->clock());
  }
  const JobRecord* job = context_.facts.FindJob(reply.job());
  if (job == nullptr || job->deleting()) {
    return absl::FailedPreconditionError("the job was not loaded, or deleted since; restore it anew");
  }
  if (!job->has_load()) return waiters_.Tell(restoring.done, {reply});
  const Subject load = Subject::Load(job->id());
  const auto expired = [this, load] {
    return absl::DeadlineExceededError(absl::StrCat("the snapshot is not restored everywhere: it waits for ",
                                                    fan_outs_.Waits(load), "; it goes on, ask again"));
  };
  return waiters_.Await(
      {.subject = load,
       .deadline = restoring.deadline,
       .answer = waiters_.Telling<v1::RestoreSnapshotReply>(restoring.done, [reply] { return reply; }),
       .expired = expired},
      ticket);
}

absl::StatusOr<uint32_t> Snapshots::BeginLoad(const v1::RestoreSnapshotRequest& request,
                                              const v1::SnapshotManifest& manifest) {
  const std::string& name = request.job().empty() ? manifest.job() : request.job();
  if (const JobRecord* loading = context_.facts.FindLoading(name)) {
    if (loading->load().snapshot() != request.snapshot()) {
      return absl::UnavailableError(absl::StrCat("job '", name, "': another snapshot, '",
                                                 loading->load().snapshot(),
                                                 "', is being loaded; try again"));
    }
    const uint32_t job = loading->id();  // of the same command, given before
    Changes changes;
    changes.nonces = With(context_.facts.nonces(), request.nonce(), job, manifest.clock());
    ABSL_RETURN_IF_ERROR(context_.Commit(changes));
    return job;
  }
  ABSL_ASSIGN_OR_RETURN(const uint32_t replaces, Replaced(name, request));
  ABSL_ASSIGN_OR_RETURN(const uint32_t job, CommitLoad(name, manifest, replaces, request.nonce()));
  StartLoad(*context_.facts.FindJob(job));
  membership_.Pump();
  return job;
}

// The job to be replaced; 0: none.
absl::StatusOr<uint32_t> Snapshots::Replaced(const std::string& name,
                                             const v1::RestoreSnapshotRequest& request) const {
  ABSL_RETURN_IF_ERROR(CheckName("job", name, context_.options.limits.name_bytes));
  const JobRecord* job = context_.facts.FindJob(name);
  if (job == nullptr) return 0;
  if (job->deleting()) {
    return absl::UnavailableError(absl::StrCat("job '", name, "' is being deleted; try again"));
  }
  if (!request.replace() || (request.replaces() != 0 && request.replaces() != job->id())) {
    return absl::AlreadyExistsError(absl::StrCat(
        "job '", name, "' exists", request.replace() ? ", and is not the one that was to be replaced" : "",
        "; restore into a job of another name, or replace it"));
  }
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() != job->id() || session.state() == SessionRecord::CLOSED) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job '", name, "' has an open session: ", id, " (", session.client(),
                     "); close those it has, or wait until they are evicted"));
  }
  return job->id();
}

absl::StatusOr<uint32_t> Snapshots::CommitLoad(const std::string& name, const v1::SnapshotManifest& manifest,
                                               uint32_t replaces, uint64_t nonce) {
  const Limits& limits = context_.options.limits;
  if (context_.facts.jobs().size() >= limits.jobs) return TooMany("jobs", limits.jobs, "delete one");
  const size_t tables = context_.facts.tables().size() + context_.facts.drops().size() +
                        static_cast<size_t>(manifest.tables_size());
  if (tables > limits.tables) return TooMany("tables", limits.tables, "drop one");
  Changes changes;
  const uint64_t change = context_.facts.NumberIn(changes);
  CountersRecord& counters = *changes.counters;
  counters.set_job(counters.job() + 1);
  counters.set_cut(counters.cut() + 1);
  counters.set_catalogue_version(counters.catalogue_version() + 1);
  JobRecord record;
  record.set_id(counters.job());
  record.set_name(name);
  record.set_change(change);
  record.set_had_workers(true);  // its clocks have advanced
  record.set_data_lost(manifest.data_lost());
  LoadRecord& load = *record.mutable_load();
  load.set_id(counters.cut());
  load.set_snapshot(manifest.name());
  load.set_clock(manifest.clock());
  load.set_replaces(replaces);
  for (const v1::Table& from : manifest.tables()) {
    // Checked here, since the manifest comes from outside.
    const auto schema = wire::SchemaFromProto(from.schema());
    if (!schema.ok()) {
      return absl::Status(schema.status().code(),
                          absl::StrCat(manifest.name(), "/manifest.json: table '", from.name(),
                                       "': ", schema.status().message()));
    }
    ABSL_RETURN_IF_ERROR(membership_.CheckSpoken(
        table::LevelOf(schema->rule),
        absl::StrCat("table '", from.name(), "': the rule ", table::NameOfRule(schema->rule))));
    v1::Table& to = changes.tables.emplace_back(from);
    counters.set_table(counters.table() + 1);
    to.set_id(counters.table());
    to.set_job(record.id());
    to.clear_rule_change();
    to.clear_rule_clock();
    to.clear_bound_max();
    to.clear_bound();
    to.clear_only_bound();
    to.clear_holds_back();
    load.add_from(from.id());
    load.add_to(to.id());
  }
  changes.jobs.push_back(record);
  changes.nonces = With(context_.facts.nonces(), nonce, record.id(), manifest.clock());
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  return record.id();
}

void Snapshots::StartLoad(const JobRecord& job) {
  v1::Change change = ChangeOf(v1::Subject::JOB, job.id(), job.id(), job.change());
  v1::Change::LoadJob& load = *change.mutable_load();
  load.set_id(job.load().id());
  load.set_snapshot(job.load().snapshot());
  load.set_clock(job.load().clock());
  for (int i = 0; i < job.load().to_size(); ++i) {
    const v1::Table* table = context_.facts.FindTable(job.load().to(i));
    if (table == nullptr) continue;
    v1::Change::LoadJob::Table& to = *load.add_tables();
    to.set_from(job.load().from(i));
    *to.mutable_to() = *table;
  }
  fan_outs_.Start(std::move(change));
}

void Snapshots::OnLate(Subject subject) {
  const auto id = static_cast<uint32_t>(subject.id);
  if (subject.kind == Subject::Kind::kCut) return OnLateCut(id);
  const JobRecord* job = context_.facts.FindJob(id);
  if (subject.kind != Subject::Kind::kLoad || job == nullptr || !job->has_load() || job->deleting()) return;
  Changes changes;
  changes.jobs.push_back(*job);
  changes.jobs.back().set_change(context_.facts.NumberIn(changes));
  // A failure is tried again.
  if (context_.Commit(changes).ok()) StartLoad(*context_.facts.FindJob(id));
}

// A segment has begun empty since, for one. Another cut takes its place.
void Snapshots::OnLateCut(uint32_t job) {
  const auto it = creations_.find(job);
  if (it == creations_.end() || !it->second.asked || it->second.complete) return;
  if (const absl::Status proposed = Propose(job, 0); !proposed.ok()) GiveUp(job, proposed);
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
  waiters_.AnswerAll(Subject::Load(id), absl::OkStatus());
}

absl::Status Snapshots::GiveUpLoad(uint32_t id, const std::string& why, uint64_t nonce) {
  Changes changes;
  changes.nonces = With(context_.facts.nonces(), nonce, id);
  JobRecord& job = changes.jobs.emplace_back(*context_.facts.FindJob(id));
  job.set_name(absl::StrCat(job.name(), ":not-loaded-", id));
  job.set_deleting(true);
  job.clear_load();
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  fan_outs_.Stop(Subject::Load(id));
  ++counters_.failed;
  waiters_.AnswerAll(Subject::Load(id),
                     absl::FailedPreconditionError(absl::StrCat("the snapshot was not restored: ", why)));
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
