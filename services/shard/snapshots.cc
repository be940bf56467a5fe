#include "services/shard/snapshots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/log/primary.h"
#include "libs/snapshot/segment_file.h"
#include "services/shard/shard.h"
#include "services/shard/snapshot_load.h"

namespace paceline::shard {
namespace {

v1::JobChangeReply::Failure Failure(SegmentId segment, std::string why, bool lost = false) {
  v1::JobChangeReply::Failure failure;
  failure.set_segment(segment.v);
  failure.set_why(std::move(why));
  failure.set_lost(lost);
  return failure;
}

}  // namespace

Snapshots::Answer Snapshots::Write(log::Primary& primary, const v1::JobChange& change) {
  const SegmentId segment = primary.segment().id();
  const JobId job(change.job());
  MutexLock lock(&mutex_);
  Written& written = written_[{segment, job}];
  if (written.cut == change.cut()) {
    if (written.file.has_value()) return {.done = true, .why = "", .file = written.file, .failure = {}};
    if (!written.failure.empty())
      return {.why = written.failure, .file = {}, .failure = Failure(segment, written.failure, written.lost)};
    return {.why = absl::StrCat("segment ", segment.v, ": its rows are being written"),
            .file = {},
            .failure = {}};
  }
  std::optional<log::CutCopy> copy = primary.TakeCut(job, change.cut());
  if (!copy.has_value()) {
    std::string why = absl::StrCat("segment ", segment.v, ": another shard was primary when cut ",
                                   change.cut(), " was logged");
    return {.why = why, .file = {}, .failure = Failure(segment, why, /*lost=*/true)};
  }
  written = {.cut = change.cut(), .file = {}, .failure = ""};
  runner_.Run([this, folder = change.snapshot(), segment, copy = *std::move(copy),
               ring_bits = static_cast<uint32_t>(primary.segment().ring_bits())](snapshot::Files& files) {
    WriteOut(files, folder, copy, segment, ring_bits);
  });
  return {
      .why = absl::StrCat("segment ", segment.v, ": its rows are being written"), .file = {}, .failure = {}};
}

void Snapshots::WriteOut(snapshot::Files& files, const std::string& folder, const log::CutCopy& copy,
                         SegmentId segment, uint32_t ring_bits) {
  const snapshot::FileHead head = {.cut = copy.cut.id,
                                   .job = copy.cut.job,
                                   .segment = segment,
                                   .ring_bits = ring_bits,
                                   .epoch = copy.epoch,
                                   .lsn = copy.lsn,
                                   .clock = copy.cut.clock};
  const std::pair key(segment, copy.cut.job);
  {
    MutexLock lock(&mutex_);
    const auto written = written_.find(key);
    if (written == written_.end() || written->second.cut != copy.cut.id) return;  // nobody asks for it now
  }
  bool lost = false;
  const absl::StatusOr<v1::SnapshotFile> file = WriteFile(files, folder, copy, head, &lost);
  MutexLock lock(&mutex_);
  file.ok() ? ++counters_.files_written : ++counters_.write_failures;
  if (file.ok()) counters_.bytes_written += file->bytes();
  const auto written = written_.find(key);
  if (written == written_.end() || written->second.cut != copy.cut.id) return;  // there was another one since
  if (file.ok()) {
    written->second.file = *file;
  } else {
    written->second.failure = absl::StrCat("segment ", segment.v, ": ", file.status().message());
    written->second.lost = lost;
  }
}

// Blocks are pages: what is written at a time is as large as a page, and so is what a reader needs.
absl::StatusOr<v1::SnapshotFile> Snapshots::WriteFile(snapshot::Files& files, const std::string& folder,
                                                      const log::CutCopy& copy,
                                                      const snapshot::FileHead& head, bool* lost) {
  v1::SnapshotFile file;
  file.set_name(absl::StrCat("segment-", head.segment.v, ".cut-", head.cut, ".epoch-", head.epoch.v));
  snapshot::FileEncoder encoder;
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<snapshot::NewFile> to, files.Create(folder, file.name()));
  ABSL_RETURN_IF_ERROR(to->Append(encoder.Head(head)));
  const auto bytes = [](const auto& numbers) {
    return absl::string_view(reinterpret_cast<const char*>(numbers.data()),
                             numbers.size() * sizeof(numbers[0]));
  };
  table::CopiedRows rows;
  while (true) {
    const absl::StatusOr<bool> more = Next(head.segment, copy.cut, &rows);
    *lost = absl::IsNotFound(more.status());
    ABSL_RETURN_IF_ERROR(more.status());
    if (!*more) break;
    ABSL_RETURN_IF_ERROR(to->Append(encoder.Rows(
        {.table = rows.table, .floats = rows.floats, .keys = bytes(rows.keys), .rows = bytes(rows.rows)})));
  }
  ABSL_RETURN_IF_ERROR(to->Append(encoder.End()));
  ABSL_RETURN_IF_ERROR(to->Commit());
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

absl::StatusOr<bool> Snapshots::Next(SegmentId segment, const log::Cut& cut, table::CopiedRows* rows) {
  absl::StatusOr<bool> next = false;
  absl::Duration took;
  Notification done;
  shard_.executor(shard_.ExecutorOf(segment)).Run([&] {
    const absl::Time begin = shard_.clock().Now();
    log::Primary* primary = shard_.host(segment).primary();
    if (primary == nullptr) {
      next = absl::NotFoundError("another shard is primary now");
    } else {
      next = primary->NextOfCut(cut.job, cut.id, rows);
    }
    took = shard_.clock().Now() - begin;
    done.Notify();
  });
  done.WaitForNotification();
  MutexLock lock(&mutex_);
  counters_.pages_copied += next.ok() && *next ? 1 : 0;
  counters_.longest_copy = std::max(counters_.longest_copy, took);
  return next;
}

void Snapshots::Load(const v1::JobChange& change, std::set<uint32_t> segments) {
  const JobId job(change.job());
  {
    MutexLock lock(&mutex_);
    LoadState& state = loads_[job];
    if (state.id == change.cut() && (state.under_way || !state.failure.ok())) return;
    state = {.id = change.cut(), .under_way = true, .failure = absl::OkStatus()};
  }
  SnapshotLoad::Start(shard_, runner_, change, std::move(segments),
                      [this, job, id = change.cut()](uint64_t rows, absl::Status status) {
                        OnLoaded(job, id, rows, std::move(status));
                      });
}

void Snapshots::OnLoaded(JobId job, uint64_t id, uint64_t rows, absl::Status status) {
  MutexLock lock(&mutex_);
  counters_.rows_loaded += rows;
  if (!status.ok()) ++counters_.load_failures;
  const auto found = loads_.find(job);
  if (found == loads_.end()) return;  // closed meanwhile
  LoadState& state = found->second;
  if (state.id == id) state = {.id = id, .under_way = false, .failure = std::move(status)};
}

absl::Status Snapshots::LoadFailure(const v1::JobChange& change) const {
  MutexLock lock(&mutex_);
  const auto state = loads_.find(JobId(change.job()));
  return state == loads_.end() || state->second.id != change.cut() ? absl::OkStatus() : state->second.failure;
}

void Snapshots::Forget(JobId job) {
  MutexLock lock(&mutex_);
  loads_.erase(job);
  std::erase_if(written_, [job](const auto& written) { return written.first.second == job; });
}

Snapshots::Counters Snapshots::counters() const {
  MutexLock lock(&mutex_);
  Counters counters = counters_;
  counters.noted = written_.size() + loads_.size();
  return counters;
}

}  // namespace paceline::shard
