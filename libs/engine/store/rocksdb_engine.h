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
  // Of content in memory before it becomes files, and about as much again while it becomes them; the unit in
  // which the log's old end is given back.
  size_t write_buffer_bytes = size_t{16} << 20;
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
// After an error of the disk the next call closes the database and opens it anew, which takes as long as it
// takes to read and write what is not in files yet, twice `write_buffer_bytes` at most, about; what it may
// have lost of the batches since the last sync is written again. A batch that was refused may be there all
// the same: it is to be given again, before any other. kDataLoss: what had been synced is gone.
//
//   kFailedPrecondition   another process uses the directory, or a newer release has written it
//   kUnavailable          it cannot be created or read
//   kDataLoss             it is damaged
absl::StatusOr<std::unique_ptr<Engine>> OpenRocksDbEngine(const std::string& dir,
                                                          const RocksDbOptions& options = {});

}  // namespace paceline::engine
