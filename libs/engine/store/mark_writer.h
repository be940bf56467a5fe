#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/engine/synced_mark.h"
#include "libs/world/real_clock.h"

namespace paceline::engine {

// Writes the mark of a folder when its MarkKeeper says so, from a thread of its own. So a caller that syncs a
// file does not wait for a second sync. Thread-safe.
class MarkWriter {
 public:
  // `file` has two slots; `found` is their content.
  MarkWriter(std::unique_ptr<rocksdb::FSRandomRWFile> file, FoundMark found);
  // Writes everything known to be synced into the mark, unless the disk fails.
  ~MarkWriter();
  MarkWriter(const MarkWriter&) = delete;
  MarkWriter& operator=(const MarkWriter&) = delete;

  // Writes the mark that was found once more, so that it is certainly on the disk.
  rocksdb::IOStatus WriteAgain() ABSL_LOCKS_EXCLUDED(writing_);

  // As the methods of MarkKeeper.
  void Synced(const SyncedMark::File& file) ABSL_LOCKS_EXCLUDED(mutex_);
  void Reached(uint64_t position) ABSL_LOCKS_EXCLUDED(mutex_);
  void HasCurrent() ABSL_LOCKS_EXCLUDED(mutex_);
  // As Forget of MarkKeeper; OK: no mark on the disk names the file.
  rocksdb::IOStatus Forget(absl::string_view name) ABSL_LOCKS_EXCLUDED(writing_, mutex_);

  // OK: everything known so far is on the disk.
  rocksdb::IOStatus WriteNow() ABSL_LOCKS_EXCLUDED(writing_, mutex_);
  // Of the last attempt to write.
  rocksdb::IOStatus status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // All that is known to be synced. Its count is not maintained.
  SyncedMark known() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // False: the writer is being destroyed.
  bool AwaitDue() ABSL_LOCKS_EXCLUDED(mutex_);
  rocksdb::IOStatus Write(const SyncedMark& mark, int slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  template <class Change>
  void Note(Change change) ABSL_LOCKS_EXCLUDED(mutex_);

  const world::RealClock clock_;
  Mutex writing_;  // taken before the other one
  const std::unique_ptr<rocksdb::FSRandomRWFile> file_ ABSL_PT_GUARDED_BY(writing_);
  int slot_ ABSL_GUARDED_BY(writing_);  // that has the last one
  mutable Mutex mutex_;
  CondVar changed_;
  MarkKeeper keeper_ ABSL_GUARDED_BY(mutex_);
  rocksdb::IOStatus status_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paceline::engine
