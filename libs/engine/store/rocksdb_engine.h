#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/engine/engine.h"

namespace rocksdb {
class Env;
}

namespace paceline::engine {

struct RocksDbOptions {
  // Bytes of content kept in memory before they become files; about as much again is in use while they become
  // files. Also the unit in which space at the old end of the log is freed.
  size_t write_buffer_bytes = size_t{16} << 20;
  // The most bytes of records in a group of the log: a batch with more begins others. RocksDB takes no value
  // of 4 GiB or more.
  uint64_t group_bytes = uint64_t{256} << 20;
  // Files and threads, for tests; outlives the engine. nullptr: the operating system's.
  rocksdb::Env* env = nullptr;
};

// Opens the engine in directory `dir`, which is created with its parents if it does not exist. The directory
// belongs to exactly one process at a time: it is locked until the engine is destroyed or the process ends,
// however it ends.
//
// On disk: RocksDB with three column families, described in docs/formats.md. The log's keys ascend with time
// and its files are never compacted, so that each falls out of use as a whole and is deleted. All families
// are flushed together: otherwise a few bytes in one of them would keep the whole write-ahead log.
//
// After a disk error the next call closes the database and opens it anew. That takes as long as reading and
// writing the data that is in no file yet, about twice `write_buffer_bytes` at most. The engine writes again
// the batches since the last sync that may have been lost. A batch that was refused may be there all the
// same: the caller must write it again before any other. kDataLoss: synced data is gone.
//
//   kFailedPrecondition   another process uses the directory, or a newer release has written it
//   kUnavailable          it cannot be created or read
//   kDataLoss             it is damaged
absl::StatusOr<std::unique_ptr<Engine>> OpenRocksDbEngine(const std::string& dir,
                                                          const RocksDbOptions& options = {});

}  // namespace paceline::engine
