#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>

namespace paceline::engine {

// Files of `base` of which a sync is a call of the operating system only if something was written since the
// last one that succeeded.
//
// The engine syncs the write-ahead log before a flush; RocksDB syncs the file that the flush closes once
// more, in the background. That is needless, and were it to fail it would be worse: a sync of the engine's
// that comes after it takes the closed file along, and RocksDB 7.8 ends the process when it meets a file that
// has failed there (WritableFileWriter::AssertFalseAndGetStatusForPrevError).
//
// Thread-safe as RocksDB's files are: one thread writes to a file, any may sync it.
std::unique_ptr<rocksdb::Env> WithoutNeedlessSyncs(std::shared_ptr<rocksdb::FileSystem> base);

}  // namespace paceline::engine
