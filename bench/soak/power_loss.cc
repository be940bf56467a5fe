#include "bench/soak/power_loss.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tools/paceline/child.h"

namespace paceline::bench {
namespace {

// Synced bytes by inode; later lines count.
std::map<uint64_t, uint64_t> ReadLedger(const std::filesystem::path& path) {
  std::map<uint64_t, uint64_t> synced;
  std::ifstream lines(path);
  uint64_t inode = 0;
  uint64_t bytes = 0;
  while (lines >> inode >> bytes) synced[inode] = bytes;
  return synced;
}

}  // namespace

absl::StatusOr<PowerLoss> PowerLoss::Prepare(std::filesystem::path ledger) {
  std::filesystem::path library = tool::FolderOfPrograms() / "paceline-synced-ledger.so";
  std::error_code ignored;
  if (std::filesystem::exists(library, ignored)) return PowerLoss(std::move(library), std::move(ledger));
  return absl::NotFoundError(absl::StrCat(
      "there is no ", library.string(), "; it is built beside paceline-bench and notes what processes sync"));
}

std::vector<std::string> PowerLoss::Environment() const {
  const char* preloaded = std::getenv("LD_PRELOAD");
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  return {absl::StrCat("LD_PRELOAD=", preloaded == nullptr ? "" : absl::StrCat(preloaded, ":"),
                       library_.string()),
          absl::StrCat("PACELINE_SYNCED_LEDGER=", ledger_.string()),
          // AddressSanitizer wants to be the first; nothing of its is replaced here.
          absl::StrCat("ASAN_OPTIONS=", sanitizer == nullptr ? "" : absl::StrCat(sanitizer, ":"),
                       "verify_asan_link_order=0")};
}

absl::StatusOr<uint64_t> PowerLoss::Take(const std::filesystem::path& folder, world::Random& random) const {
  const std::map<uint64_t, uint64_t> synced = ReadLedger(ledger_);
  uint64_t taken = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    struct stat file;
    if (stat(entry.path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    const auto noted = synced.find(file.st_ino);
    const auto size = static_cast<uint64_t>(file.st_size);
    const uint64_t safe = noted == synced.end() ? 0 : std::min(noted->second, size);
    const uint64_t rests[] = {0, size - safe, world::Uniform(random, size - safe + 1)};
    const uint64_t rest = rests[world::Uniform(random, 3)];
    std::filesystem::resize_file(entry.path(), safe + rest, error);
    if (error) break;
    taken += size - safe - rest;
  }
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot take bytes from ", folder.string(), ": ", error.message()));
  return taken;
}

}  // namespace paceline::bench
