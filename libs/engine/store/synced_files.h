#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>

namespace paceline::engine {

// Files of `base` that pass a sync to the operating system only if something was written since the last
// successful one.
//
// The engine syncs the write-ahead log before a flush, and RocksDB then syncs the file that the flush closes
// once more, in the background. That second sync is needless, and its failure would do harm: the engine's
// next sync includes the closed file, and RocksDB 7.8 ends the process when it meets a file there whose sync
// has failed (WritableFileWriter::AssertFalseAndGetStatusForPrevError).
//
// Thread-safe as RocksDB's files are: one thread writes to a file, any thread may sync it.
std::unique_ptr<rocksdb::Env> WithoutNeedlessSyncs(std::shared_ptr<rocksdb::FileSystem> base);

}  // namespace paceline::engine
