#include "services/coordinator/store/memory_store.h"

#include "absl/strings/match.h"
#include "libs/base/status.h"

namespace paceline::coordinator {

absl::StatusOr<std::unique_ptr<MemoryStore>> MemoryStore::Open(std::shared_ptr<Disk> disk) {
  if (disk->in_use && !disk->shared) {
    return absl::FailedPreconditionError(
        "the memory store is in use by another coordinator; exactly one may run on it: stop that one first");
  }
  return std::unique_ptr<MemoryStore>(new MemoryStore(std::move(disk)));
}

MemoryStore::~MemoryStore() {
  disk_->in_use = false;
}

std::optional<Entry> MemoryStore::Find(absl::string_view key) const {
  const auto it = disk_->entries.find(key);
  return it == disk_->entries.end() ? std::nullopt : std::optional<Entry>(it->second);
}

absl::StatusOr<std::optional<Entry>> MemoryStore::Get(absl::string_view key) const {
  return Find(key);
}

absl::StatusOr<std::vector<std::pair<std::string, Entry>>> MemoryStore::List(absl::string_view prefix) const {
  std::vector<std::pair<std::string, Entry>> found;
  for (auto it = disk_->entries.lower_bound(prefix); it != disk_->entries.end(); ++it) {
    if (!absl::StartsWith(it->first, prefix)) break;
    found.emplace_back(*it);
  }
  return found;
}

absl::Status MemoryStore::Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) {
  ABSL_RETURN_IF_ERROR(CheckCommit(conditions, writes));
  for (const Condition& condition : conditions) {
    ABSL_RETURN_IF_ERROR(CheckCondition(condition, Find(condition.key)));
  }
  disk_->commits += 1;
  for (const Write& write : writes) {
    if (write.value.has_value()) {
      disk_->entries[write.key] = {.value = *write.value, .version = disk_->commits};
    } else {
      disk_->entries.erase(write.key);
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
