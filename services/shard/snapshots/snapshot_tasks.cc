#include "services/shard/snapshots/snapshot_tasks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/log/primary.h"
#include "libs/snapshot/segment_file.h"
#include "services/shard/context.h"
#include "services/shard/snapshots/snapshot_load.h"

namespace paceline::shard {
namespace {

v1::ChangeReply::Failure Failure(SegmentId segment, std::string why, bool lost = false) {
  v1::ChangeReply::Failure failure;
  failure.set_segment(segment.v);
  failure.set_why(std::move(why));
  failure.set_lost(lost);
  return failure;
}

// Names one state only. A late call may log the same cut again after its job was closed, and must not
// overwrite a file that a manifest names.
std::string NameOf(const snapshot::FileHead& head) {
  return absl::StrCat("segment-", head.segment.v, ".cut-", head.cut, ".epoch-", head.epoch.v, ".lsn-",
                      head.lsn.v);
}

// Describes a complete file.
v1::SnapshotFile FileOf(const log::CutCopy& copy, const snapshot::FileHead& head,
                        const snapshot::FileEncoder& encoder) {
  v1::SnapshotFile file;
  file.set_name(NameOf(head));
  file.set_segment(head.segment.v);
  file.set_cut(head.cut);
  file.set_epoch(head.epoch.v);
  file.set_lsn(head.lsn.v);
  file.set_clock(head.clock);
  file.set_exact(copy.exact);
  file.set_rows(encoder.rows());
  file.set_bytes(encoder.bytes());
  file.set_crc32c(encoder.crc32c());
  if (copy.exact) return file;
  for (const log::CutCopy::Worker& worker : copy.workers) {
    v1::SnapshotWorker& to_worker = *file.add_workers();
    to_worker.set_session(worker.session.v);
    to_worker.set_rank(worker.rank);
    to_worker.set_clock(worker.clock);
  }
  return file;
}

}  // namespace

SnapshotTasks::Answer SnapshotTasks::Write(log::Primary& primary, const v1::Change& change) {
  const SegmentId segment = primary.segment().id();
  const JobId job(change.job());
  MutexLock lock(&mutex_);
  Written& written = written_[{segment, job}];
  if (written.cut == change.cut().id()) {
    if (written.file.has_value()) return {.done = true, .why = "", .file = written.file, .failure = {}};
    if (!written.failure.empty())
      return {.why = written.failure, .file = {}, .failure = Failure(segment, written.failure, written.lost)};
    return {.why = absl::StrCat("segment ", segment.v, ": its rows are being written"),
            .file = {},
            .failure = {}};
  }
  std::optional<log::CutCopy> copy = primary.TakeCut(job, change.cut().id());
  if (!copy.has_value()) {
    std::string why = absl::StrCat("segment ", segment.v, ": another shard was primary when cut ",
                                   change.cut().id(), " was logged");
    return {.why = why, .file = {}, .failure = Failure(segment, why, /*lost=*/true)};
  }
  written = {.cut = change.cut().id(), .file = {}, .failure = ""};
  const snapshot::FileHead head = {.cut = copy->cut.id,
                                   .job = copy->cut.job,
                                   .segment = segment,
                                   .ring_bits = static_cast<uint32_t>(primary.segment().ring_bits()),
                                   .epoch = copy->epoch,
                                   .lsn = copy->lsn,
                                   .clock = copy->cut.clock};
  const auto writing = std::make_shared<Writing>(
      Writing{.folder = change.cut().snapshot(), .copy = *std::move(copy), .head = head});
  runner_.RunSteps([this, writing](snapshot::Files& files) { return GoOnWriting(files, *writing); });
  return {
      .why = absl::StrCat("segment ", segment.v, ": its rows are being written"), .file = {}, .failure = {}};
}

bool SnapshotTasks::GoOnWriting(snapshot::Files& files, Writing& writing) {
  if (writing.to == nullptr) {
    if (!IsAskedFor(writing)) return false;
    const absl::Status begun = Begin(files, writing);
    if (!begun.ok()) OnWritten(writing, begun);
    return begun.ok();
  }
  const absl::StatusOr<bool> more = WriteNext(writing);
  if (more.ok() && *more) return true;
  OnWritten(writing, more.status());
  return false;
}

bool SnapshotTasks::IsAskedFor(const Writing& writing) const {
  MutexLock lock(&mutex_);
  const auto written = written_.find({writing.head.segment, writing.head.job});
  return written != written_.end() && written->second.cut == writing.head.cut;
}

absl::Status SnapshotTasks::Begin(snapshot::Files& files, Writing& writing) {
  ABSL_ASSIGN_OR_RETURN(writing.to, files.Create(writing.folder, NameOf(writing.head)));
  return writing.to->Append(writing.encoder.Head(writing.head));
}

// A block is a page: a writer and a reader need memory for one at a time.
absl::StatusOr<bool> SnapshotTasks::WriteNext(Writing& writing) {
  const auto bytes = [](const auto& numbers) {
    return absl::string_view(reinterpret_cast<const char*>(numbers.data()),
                             numbers.size() * sizeof(numbers[0]));
  };
  table::CopiedRows& rows = writing.rows;
  const absl::StatusOr<bool> more = Next(writing.head.segment, writing.copy.cut, &rows);
  writing.lost = absl::IsNotFound(more.status());
  ABSL_RETURN_IF_ERROR(more.status());
  if (*more) {
    ABSL_RETURN_IF_ERROR(writing.to->Append(writing.encoder.Rows(
        {.table = rows.table, .floats = rows.floats, .keys = bytes(rows.keys), .rows = bytes(rows.rows)})));
    return true;
  }
  ABSL_RETURN_IF_ERROR(writing.to->Append(writing.encoder.End()));
  ABSL_RETURN_IF_ERROR(writing.to->Commit());
  return false;
}

void SnapshotTasks::OnWritten(const Writing& writing, const absl::Status& status) {
  MutexLock lock(&mutex_);
  status.ok() ? ++counters_.files_written : ++counters_.write_failures;
  if (status.ok()) counters_.bytes_written += writing.encoder.bytes();
  const auto written = written_.find({writing.head.segment, writing.head.job});
  if (written == written_.end() || written->second.cut != writing.head.cut) return;  // another one since
  if (status.ok()) {
    written->second.file = FileOf(writing.copy, writing.head, writing.encoder);
  } else {
    written->second.failure = absl::StrCat("segment ", writing.head.segment.v, ": ", status.message());
    written->second.lost = writing.lost;
  }
}

absl::StatusOr<bool> SnapshotTasks::Next(SegmentId segment, const log::Cut& cut, table::CopiedRows* rows) {
  absl::StatusOr<bool> next = false;
  absl::Duration took;
  Notification done;
  context_.executor(segment).Run([&] {
    const absl::Time begin = context_.clock().Now();
    log::Primary* primary = context_.host(segment).primary();
    if (primary == nullptr) {
      next = absl::NotFoundError("another shard is primary now");
    } else {
      next = primary->NextOfCut(cut.job, cut.id, rows);
    }
    took = context_.clock().Now() - begin;
    done.Notify();
  });
  done.WaitForNotification();
  MutexLock lock(&mutex_);
  counters_.pages_copied += next.ok() && *next ? 1 : 0;
  counters_.longest_copy = std::max(counters_.longest_copy, took);
  return next;
}

void SnapshotTasks::Load(const v1::Change& change, std::set<uint32_t> segments) {
  const JobId job(change.job());
  {
    MutexLock lock(&mutex_);
    LoadState& state = loads_[job];
    if (state.id == change.load().id() && (state.under_way || !state.failure.ok())) return;
    state = {.id = change.load().id(), .under_way = true, .failure = absl::OkStatus()};
  }
  SnapshotLoad::Start(context_, runner_, change, std::move(segments),
                      [this, job, id = change.load().id()](uint64_t rows, absl::Status status) {
                        OnLoaded(job, id, rows, std::move(status));
                      });
}

void SnapshotTasks::OnLoaded(JobId job, uint64_t id, uint64_t rows, absl::Status status) {
  MutexLock lock(&mutex_);
  counters_.rows_loaded += rows;
  if (!status.ok()) ++counters_.load_failures;
  const auto found = loads_.find(job);
  if (found == loads_.end()) return;  // closed meanwhile
  LoadState& state = found->second;
  if (state.id == id) state = {.id = id, .under_way = false, .failure = std::move(status)};
}

absl::Status SnapshotTasks::LoadFailure(const v1::Change& change) const {
  MutexLock lock(&mutex_);
  const auto state = loads_.find(JobId(change.job()));
  return state == loads_.end() || state->second.id != change.load().id() ? absl::OkStatus()
                                                                         : state->second.failure;
}

void SnapshotTasks::Forget(JobId job) {
  MutexLock lock(&mutex_);
  loads_.erase(job);
  std::erase_if(written_, [job](const auto& written) { return written.first.second == job; });
}

SnapshotTasks::Counters SnapshotTasks::counters() const {
  MutexLock lock(&mutex_);
  Counters counters = counters_;
  counters.noted = written_.size() + loads_.size();
  return counters;
}

}  // namespace paceline::shard
