#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/world/random.h"

namespace paceline::bench {

// Losses of power for processes of one machine: a process that is killed leaves all it wrote in the page
// cache, and this takes away again what it had not synced. Each process writes down what it syncs
// (synced_ledger.cc, loaded into it). New names of files are not taken back: only bytes are. For one thread.
class PowerLoss {
 public:
  // `ledger` is a file that is not there yet. NOT_FOUND if there is nothing to load into the processes.
  static absl::StatusOr<PowerLoss> Prepare(std::filesystem::path ledger);

  // That processes are to be started with.
  std::vector<std::string> Environment() const;

  // The bytes in `folder` that are not synced. Whoever writes there must be stopped, or it is a guess.
  absl::StatusOr<uint64_t> Unsynced(const std::filesystem::path& folder) const;

  // What power takes from the files in `folder`, after those who write there were killed: of each, what was
  // synced stays, and of the rest nothing, everything or a part; nothing of it with `all`. Returns the bytes
  // that went.
  absl::StatusOr<uint64_t> Take(const std::filesystem::path& folder, world::Random& random,
                                bool all = false) const;

 private:
  PowerLoss(std::filesystem::path library, std::filesystem::path ledger)
      : library_(std::move(library)), ledger_(std::move(ledger)) {}

  std::filesystem::path library_;
  std::filesystem::path ledger_;
};

}  // namespace paceline::bench
