#pragma once

#include <memory>
#include <string>

#include "services/coordinator/store/store.h"

namespace rocksdb {
class Env;
}

namespace paceline::coordinator {

// Opens the store in directory `dir`, which is created with its parents if it does not exist. The directory
// belongs to exactly one process at a time: it is locked until the store is destroyed or the process ends, in
// any way. Every commit is synced to the disk (a fraction of a millisecond to some milliseconds). After a
// disk error the next call opens the database anew; if that fails too, so does the call.
//
// `env`: files and threads, for tests; outlives the store. nullptr: the operating system's.
//
//   kFailedPrecondition   another process uses the directory, or a newer release has written it
//   kUnavailable          it cannot be created or read
//   kDataLoss             it is damaged
absl::StatusOr<std::unique_ptr<Store>> OpenRocksDbStore(const std::string& dir, rocksdb::Env* env = nullptr);

}  // namespace paceline::coordinator
