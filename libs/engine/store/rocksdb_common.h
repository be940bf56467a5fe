#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Common to all of Paceline's databases: the shards' (rocksdb_engine.h) and the coordinator's.
namespace paceline::engine {

// After an error the database does nothing more by itself: its owner closes it and opens it anew. RocksDB
// would try to resume at times of its own choice, on files that once failed to be written or synced; and
// Debian's build, which has assertions enabled, ends the process when it writes to such a file. For the same
// reason the database has no info log, which RocksDB would write regardless of errors; statuses report what
// went wrong.
//
// At the end of its write-ahead log RocksDB takes damage for a torn write and cuts it off with everything
// after it. Before opening, the owner has checked that all synced data is there (marked_folder.h).
void StopAtErrors(rocksdb::DBOptions& options);

// For what is read from one end to the other and not again: it does not go into the cache.
rocksdb::ReadOptions ReadOnce();

// `whose`: the word that messages begin with. A full disk is kResourceExhausted, damage kDataLoss, the rest
// kUnavailable.
absl::Status Translated(const rocksdb::Status& status, absl::string_view whose, absl::string_view what);

// The value that a database has under `key`. Changes neither the database nor its files. `env`: its files.
absl::StatusOr<std::optional<std::string>> ReadOne(rocksdb::Env* env, const std::string& dir,
                                                   absl::string_view whose, absl::string_view key);

// A lock on a directory: it belongs to this process until the object is destroyed or the process ends, in any
// way. It holds also while no database is open there, when RocksDB's own lock does not.
class FolderLock {
 public:
  // Creates the directory, and its parents, if it does not exist. `user`: "shard" or "coordinator". `env`
  // outlives the lock.
  //
  //   kFailedPrecondition   another process has it
  //   kUnavailable          it cannot be created or written to
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(rocksdb::Env* env, const std::string& dir,
                                                          absl::string_view whose, absl::string_view user);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(rocksdb::Env* env, rocksdb::FileLock* lock) : env_(env), lock_(lock) {}

  rocksdb::Env* const env_;
  rocksdb::FileLock* const lock_;
};

}  // namespace paceline::engine
