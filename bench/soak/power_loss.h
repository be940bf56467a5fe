#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/world/random.h"

namespace paceline::bench {

// Simulates power losses for processes of one machine. A process that is killed leaves everything it wrote in
// the page cache; this class removes again what it had not synced. Each process records its syncs
// (synced_ledger.cc, loaded into it). Only bytes are removed, not new names of files. For one thread.
class PowerLoss {
 public:
  // `ledger` is a file that is not there yet. NOT_FOUND if there is nothing to load into the processes.
  static absl::StatusOr<PowerLoss> Prepare(std::filesystem::path ledger);

  // That processes are to be started with.
  std::vector<std::string> Environment() const;

  // The bytes in `folder` that are not synced. Stop all processes that write there first, or the result is a
  // guess.
  absl::StatusOr<uint64_t> Unsynced(const std::filesystem::path& folder) const;

  // Removes what a power loss takes from the files in `folder`, after all processes that write there were
  // killed: of each file, the synced bytes stay, and of the rest none, all or a part; none with `all`.
  // Returns the number of bytes removed.
  absl::StatusOr<uint64_t> Take(const std::filesystem::path& folder, world::Random& random,
                                bool all = false) const;

 private:
  PowerLoss(std::filesystem::path library, std::filesystem::path ledger)
      : library_(std::move(library)), ledger_(std::move(ledger)) {}

  std::filesystem::path library_;
  std::filesystem::path ledger_;
};

}  // namespace paceline::bench
