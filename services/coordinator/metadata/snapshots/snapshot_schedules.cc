#include "services/coordinator/metadata/snapshots/snapshot_schedules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::coordinator {
namespace {

absl::Status Check(const v1::SnapshotSchedule& schedule) {
  if ((schedule.every_s() == 0) == (schedule.every_clocks() == 0)) {
    return absl::InvalidArgumentError(absl::StrCat("every_s, every_clocks: ", schedule.every_s(), " and ",
                                                   schedule.every_clocks(),
                                                   "; expected exactly one of them to be at least 1"));
  }
  if (schedule.keep() == 0 || schedule.keep() > SnapshotSchedules::kKeepMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep: ", schedule.keep(), "; expected 1 to ", SnapshotSchedules::kKeepMax));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ScheduleSnapshotsReply> SnapshotSchedules::Set(
    const v1::ScheduleSnapshotsRequest& request) {
  ABSL_RETURN_IF_ERROR(snapshots_.CheckKept());
  const JobRecord* found = context_.facts.FindJob(request.job());
  if (found == nullptr || found->deleting()) {
    return absl::NotFoundError(
        absl::StrCat("job '", request.job(), "' does not exist; see whether its name is right"));
  }
  Changes changes;
  JobRecord& job = changes.jobs.emplace_back(*found);
  if (!request.has_schedule()) {
    job.clear_schedule();
  } else {
    ABSL_RETURN_IF_ERROR(Check(request.schedule()));
    ScheduleRecord& record = *job.mutable_schedule();  // inherits what an earlier one has taken
    *record.mutable_schedule() = request.schedule();
    record.set_since_unix_s(context_.options.snapshots->UnixSeconds());
    if (record.taken().empty()) record.set_since_clock(workers_.NewestClock(job.id()));
  }
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  v1::ScheduleSnapshotsReply reply;
  *reply.mutable_schedule() = InfoOf(*context_.facts.FindJob(request.job()));
  return reply;
}

int SnapshotSchedules::Surplus(const ScheduleRecord& record) {
  return std::max(0, record.taken_size() - static_cast<int>(record.schedule().keep()));
}

bool SnapshotSchedules::IsDue(const JobRecord& job) const {
  const ScheduleRecord& record = job.schedule();
  // The job has not changed since the last snapshot: another one would only push out an older one.
  if (!record.taken().empty() && !workers_.AnyAtWork(job.id()) &&
      workers_.NewestClock(job.id()) <= record.since_clock()) {
    return false;
  }
  if (const uint64_t clocks = record.schedule().every_clocks(); clocks > 0) {
    const uint64_t clock = workers_.NewestClock(job.id());
    return clock > record.since_clock() && clock - record.since_clock() >= clocks;
  }
  const int64_t now = context_.options.snapshots->UnixSeconds();
  // If the date was set back the schedule would wait for years.
  return now < record.since_unix_s() || now - record.since_unix_s() >= record.schedule().every_s();
}

void SnapshotSchedules::OnTime() {
  if (context_.options.snapshots == nullptr) return;
  std::erase_if(states_, [&](const auto& entry) {
    const JobRecord* job = context_.facts.FindJob(entry.first);
    return (job == nullptr || !job->has_schedule()) && !entry.second.taking && !entry.second.deleting;
  });
  std::vector<uint32_t> jobs;
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.has_schedule() && !job.deleting() && !job.has_load()) jobs.push_back(id);
  }
  for (const uint32_t id : jobs) {
    State& state = states_[id];
    if (state.taken.has_value()) Note(id);
    const JobRecord& job = *context_.facts.FindJob(id);
    const int surplus = Surplus(job.schedule());
    if (state.delete_at >= surplus && state.delete_again <= context_.now) state.delete_at = 0;
    if (state.delete_at < surplus && !state.deleting) DeleteOld(job, state.delete_at);
    if (state.taking || state.taken.has_value() || state.try_again > context_.now) continue;
    if (surplus > static_cast<int>(job.schedule().schedule().keep())) continue;
    if (IsDue(job)) Take(job);
  }
}

absl::Status SnapshotSchedules::KeepAll() {
  Changes changes;
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (!job.has_schedule() || job.schedule().taken().empty()) continue;
    changes.jobs.emplace_back(job).mutable_schedule()->clear_taken();
  }
  if (!changes.jobs.empty()) ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  for (auto& [id, state] : states_) {
    state.taken.reset();
    state.keep_it = state.taking;
  }
  return absl::OkStatus();
}

void SnapshotSchedules::Take(const JobRecord& job) {
  states_[job.id()].taking = true;
  v1::CreateSnapshotRequest request;
  request.set_job(job.name());
  const Done<v1::CreateSnapshotReply> done = AsVisit<absl::StatusOr<v1::CreateSnapshotReply>>(
      context_,
      [this, id = job.id()](const absl::StatusOr<v1::CreateSnapshotReply>& reply) { OnTaken(id, reply); });
  const absl::Status begun =
      snapshots_.Create(request, context_.now + kTakeMax, done, /*scheduled=*/true).status();
  if (!begun.ok()) context_.outbox.Add([done, begun] { done(begun); });
}

void SnapshotSchedules::OnTaken(uint32_t job, const absl::StatusOr<v1::CreateSnapshotReply>& reply) {
  State& state = states_[job];
  state.taking = false;
  const bool keep_it = std::exchange(state.keep_it, false);
  if (reply.ok()) {
    if (keep_it) return;
    state.taken = reply->snapshot();
    return Note(job);
  }
  state.try_again = context_.now + kTryAgain;
  if (absl::IsUnavailable(reply.status())) return;  // another is being taken, or this one leads no more
  state.failure = std::string(reply.status().message());
  ++state.failures;
}

void SnapshotSchedules::Note(uint32_t id) {
  State& state = states_[id];
  const JobRecord* found = context_.facts.FindJob(id);
  if (found == nullptr || !found->has_schedule()) {  // the schedule was ended meanwhile
    state.taken.reset();
    return;
  }
  Changes changes;
  ScheduleRecord& record = *changes.jobs.emplace_back(*found).mutable_schedule();
  record.set_since_unix_s(context_.options.snapshots->UnixSeconds());
  record.set_since_clock(state.taken->clock());
  record.set_last_unix_s(state.taken->created_unix_s());
  record.add_taken(state.taken->name());
  if (!context_.Commit(changes).ok()) return;  // OnTime tries again
  state.taken.reset();
  state.failure.clear();
}

void SnapshotSchedules::DeleteOld(const JobRecord& job, int which) {
  states_[job.id()].deleting = true;
  v1::DeleteSnapshotRequest request;
  request.set_snapshot(job.schedule().taken(which));
  const Done<v1::DeleteSnapshotReply> done = AsVisit<absl::StatusOr<v1::DeleteSnapshotReply>>(
      context_,
      [this, id = job.id(), name = request.snapshot()](const absl::StatusOr<v1::DeleteSnapshotReply>& reply) {
        OnDeleted(id, name, reply.status());
      });
  const absl::Status begun =
      snapshots_.Delete(request, context_.now + context_.options.request_timeout, done).status();
  if (!begun.ok()) context_.outbox.Add([done, begun] { done(begun); });
}

void SnapshotSchedules::OnDeleted(uint32_t id, const std::string& name, const absl::Status& status) {
  State& state = states_[id];
  state.deleting = false;
  const JobRecord* found = context_.facts.FindJob(id);
  if (found == nullptr || !found->has_schedule()) return;
  const auto try_next = [&] {  // this one is tried again later
    ++state.delete_at;
    state.delete_again = context_.now + kTryAgain;
  };
  if (!status.ok() && !absl::IsNotFound(status)) {
    const bool too_many = Surplus(found->schedule()) > static_cast<int>(found->schedule().schedule().keep());
    state.failure = absl::StrCat(name, " could not be deleted: ", status.message(),
                                 too_many ? "; there are too many of them, and none is taken any more" : "");
    ++state.failures;
    return try_next();
  }
  Changes changes;
  auto& taken = *changes.jobs.emplace_back(*found).mutable_schedule()->mutable_taken();
  taken.erase(std::remove(taken.begin(), taken.end(), name), taken.end());
  if (!context_.Commit(changes).ok()) try_next();  // the next try finds it gone
}

v1::SnapshotScheduleInfo SnapshotSchedules::InfoOf(const JobRecord& job) const {
  v1::SnapshotScheduleInfo info;
  info.set_job(job.name());
  if (!job.has_schedule()) return info;
  *info.mutable_schedule() = job.schedule().schedule();
  *info.mutable_snapshots() = job.schedule().taken();
  info.set_last_unix_s(job.schedule().last_unix_s());
  const auto state = states_.find(job.id());
  if (state != states_.end()) info.set_last_failure(state->second.failure);
  return info;
}

std::vector<v1::SnapshotScheduleInfo> SnapshotSchedules::List(absl::string_view name) const {
  std::vector<v1::SnapshotScheduleInfo> infos;
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.has_schedule() && !job.deleting() && (name.empty() || job.name() == name))
      infos.push_back(InfoOf(job));
  }
  return infos;
}

std::vector<SnapshotSchedules::Gauge> SnapshotSchedules::gauges() const {
  std::vector<Gauge> gauges;
  if (context_.options.snapshots == nullptr) return gauges;
  const int64_t now = context_.options.snapshots->UnixSeconds();
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (!job.has_schedule() || job.deleting()) continue;
    const ScheduleRecord& record = job.schedule();
    const int64_t since = record.last_unix_s() > 0 ? record.last_unix_s() : record.since_unix_s();
    const auto state = states_.find(id);
    gauges.push_back({.job = id,
                      .name = job.name(),
                      .age_s = std::max<int64_t>(0, now - since),
                      .failures = state == states_.end() ? 0 : state->second.failures,
                      .every_s = record.schedule().every_s()});
  }
  return gauges;
}

}  // namespace paceline::coordinator
