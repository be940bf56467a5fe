#include "bench/soak/power_loss.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
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

struct WrittenFile {
  std::filesystem::path path;
  uint64_t size = 0;
  uint64_t synced = 0;  // <= size
};

absl::StatusOr<std::vector<WrittenFile>> WrittenFiles(const std::filesystem::path& folder,
                                                      const std::filesystem::path& ledger) {
  const std::map<uint64_t, uint64_t> synced = ReadLedger(ledger);
  std::vector<WrittenFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    struct stat file;
    if (stat(entry.path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    const auto noted = synced.find(file.st_ino);
    const auto size = static_cast<uint64_t>(file.st_size);
    files.push_back({entry.path(), size, noted == synced.end() ? 0 : std::min(noted->second, size)});
  }
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot read ", folder.string(), ": ", error.message()));
  return files;
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

absl::StatusOr<uint64_t> PowerLoss::Unsynced(const std::filesystem::path& folder) const {
  ABSL_ASSIGN_OR_RETURN(const std::vector<WrittenFile> files, WrittenFiles(folder, ledger_));
  uint64_t unsynced = 0;
  for (const WrittenFile& file : files) unsynced += file.size - file.synced;
  return unsynced;
}

absl::StatusOr<uint64_t> PowerLoss::Take(const std::filesystem::path& folder, world::Random& random,
                                         bool all) const {
  ABSL_ASSIGN_OR_RETURN(const std::vector<WrittenFile> files, WrittenFiles(folder, ledger_));
  uint64_t taken = 0;
  for (const WrittenFile& file : files) {
    const uint64_t unsynced = file.size - file.synced;
    const uint64_t rests[] = {0, unsynced, world::Uniform(random, unsynced + 1)};
    const uint64_t rest = all ? 0 : rests[world::Uniform(random, 3)];
    std::error_code error;
    std::filesystem::resize_file(file.path, file.synced + rest, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot take bytes from ", file.path.string(), ": ", error.message()));
    }
    taken += unsynced - rest;
  }
  return taken;
}

}  // namespace paceline::bench
