#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/base/mutex.h"
#include "libs/log/snapshots.h"
#include "libs/snapshot/segment_file.h"
#include "libs/table/table_copy.h"
#include "paceline/v1/control.pb.h"
#include "services/shard/snapshots/snapshot_runner.h"

namespace paceline::log {
class Primary;
}  // namespace paceline::log

namespace paceline::shard {

class Context;

// Writes and loads job snapshots at a shard: writes the rows of segments as of a cut, a page at a time
// between the other tasks of their executors, and loads the rows of a job. The coordinator repeats a call
// until it is done; each answer says how far it is. docs/snapshots.md. Thread-safe.
class SnapshotTasks {
 public:
  // Both outlive this, and every task that it gives to the runner.
  SnapshotTasks(Context& context, SnapshotRunner& runner) : context_(context), runner_(runner) {}

  // The answer for one segment.
  struct Answer {
    bool done = false;
    std::string why;                                  // not done: for people
    std::optional<v1::SnapshotFile> file;             // of a cut that is done
    std::optional<v1::ChangeReply::Failure> failure;  // it is not going to be done
  };

  // Begins to write the rows of a committed cut, unless that was begun before. REQUIRES: on the segment's
  // executor.
  Answer Write(log::Primary& primary, const v1::Change& change) ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins to load the job's rows into `segments`, unless that is under way. LoadFailure says why the load
  // failed; OK: it did not.
  void Load(const v1::Change& change, std::set<uint32_t> segments) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status LoadFailure(const v1::Change& change) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The job is closed here: no more calls about it will come.
  void Forget(JobId job) ABSL_LOCKS_EXCLUDED(mutex_);

  // Since the start of the process.
  struct Counters {
    uint64_t files_written = 0;
    uint64_t bytes_written = 0;
    uint64_t write_failures = 0;
    uint64_t rows_loaded = 0;
    uint64_t load_failures = 0;
    uint64_t pages_copied = 0;
    absl::Duration longest_copy;  // for which an executor did nothing else
    // Segments and jobs of which it is known how far they are.
    size_t noted = 0;
  };
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Written {
    uint64_t cut = 0;
    std::optional<v1::SnapshotFile> file;  // nullopt: it is being written, or it failed
    std::string failure;
    bool lost = false;  // it failed because this shard was not primary all the time
  };
  struct LoadState {
    uint64_t id = 0;
    bool under_way = false;
    absl::Status failure;
  };

  // A file that is being written.
  struct Writing {
    std::string folder;
    log::CutCopy copy;
    snapshot::FileHead head;
    std::unique_ptr<snapshot::NewFile> to = nullptr;  // null: it is not begun
    snapshot::FileEncoder encoder = {};
    table::CopiedRows rows = {};
    bool lost = false;  // this shard was not primary all the time
  };

  // The next step of it. False: it has ended.
  bool GoOnWriting(snapshot::Files& files, Writing& writing) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsAskedFor(const Writing& writing) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Begin(snapshot::Files& files, Writing& writing);
  // Writes the next page, or the end. False: it was the end.
  absl::StatusOr<bool> WriteNext(Writing& writing);
  void OnWritten(const Writing& writing, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next page, copied on the segment's executor, for which it waits.
  absl::StatusOr<bool> Next(SegmentId segment, const log::Cut& cut, table::CopiedRows* rows)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLoaded(JobId job, uint64_t id, uint64_t rows, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  Context& context_;
  SnapshotRunner& runner_;
  mutable Mutex mutex_;
  // The last of each segment and job, and of each job.
  std::map<std::pair<SegmentId, JobId>, Written> written_ ABSL_GUARDED_BY(mutex_);
  std::map<JobId, LoadState> loads_ ABSL_GUARDED_BY(mutex_);
  Counters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::shard
