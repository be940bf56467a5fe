#pragma once

#include <memory>
#include <string>

#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// Opens the store in directory `dir`, which is created with its parents if it does not exist. The directory
// belongs to exactly one process at a time: it is locked until the store is destroyed or the process ends,
// however it ends. Every commit is synced to the disk (a fraction of a millisecond to some milliseconds).
//
//   kFailedPrecondition   another process uses the directory, or a newer release has written it
//   kUnavailable          it cannot be created or read
//   kDataLoss             it is damaged
absl::StatusOr<std::unique_ptr<Store>> OpenRocksDbStore(const std::string& dir);

}  // namespace paceline::coordinator
