#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "libs/base/ids.h"
#include "libs/base/mutex.h"
#include "libs/engine/engine.h"
#include "rocksdb/db.h"

namespace paceline::engine {

// Reads the pages of a database, some threads at once: one reads all pages of a segment, and then those of
// the next segment that nobody has begun. To copy pages out of files, check and install them costs several
// times what the disk or the page cache needs to bring them.
class PageReaders {
 public:
  // `named` completes an error of the database with the name of the damaged file. References outlive this.
  PageReaders(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* pages, Reader& reader,
              std::function<absl::Status(absl::Status)> named)
      : db_(db), pages_(pages), reader_(reader), named_(std::move(named)) {}

  // Returns when all pages are read, or with the first error. The caller's thread is one of them.
  absl::Status Run(int threads);

 private:
  void Work();
  // Moves `it` to the first page of the next segment; nullopt: there is none, or there was an error.
  std::optional<SegmentId> Claim(rocksdb::Iterator& it) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ReadSegment(rocksdb::Iterator& it, SegmentId segment);
  void Note(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  bool failed() ABSL_LOCKS_EXCLUDED(mutex_);

  rocksdb::DB& db_;
  rocksdb::ColumnFamilyHandle* const pages_;
  Reader& reader_;
  const std::function<absl::Status(absl::Status)> named_;
  Mutex mutex_;
  std::optional<SegmentId> next_ ABSL_GUARDED_BY(mutex_) = SegmentId(0);  // nullopt: all are begun
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::engine
