#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// What every database of ours has in common: the shards' (rocksdb_engine.h) and the coordinator's.
namespace paceline::engine {

// After an error the database does nothing by itself any more: whoever has it closes it and opens it anew.
// RocksDB would try to go on, at times of its own choice, and with files that could not be written or synced
// once; and Debian's build of it, which has its assertions, ends the process when it writes to such a file.
// For that reason it has no log file of its own either, which it writes to whatever the disk says; what goes
// wrong is in the statuses.
//
// At the end of its write-ahead log, it takes what is damaged for torn and cuts it off with all that follows:
// whoever opens it has asked before whether everything is there that was synced (marked_folder.h).
void StopAtErrors(rocksdb::DBOptions& options);

// `whose`: the word that messages begin with. A full disk is kResourceExhausted, damage kDataLoss, the rest
// kUnavailable.
absl::Status Translated(const rocksdb::Status& status, absl::string_view whose, absl::string_view what);

// What a database has under `key`, which stays as it is, its files too. `env`: its files.
absl::StatusOr<std::optional<std::string>> ReadOne(rocksdb::Env* env, const std::string& dir,
                                                   absl::string_view whose, absl::string_view key);

// A directory belongs to this process until this is destroyed or the process ends, however it ends; also
// while no database is open there, as RocksDB's own lock does not have it.
class FolderLock {
 public:
  // Creates the directory, and its parents, if it does not exist. `user`: "shard" or "coordinator". `env`
  // outlives the lock.
  //
  //   kFailedPrecondition   somebody else has it
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
