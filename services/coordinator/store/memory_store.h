#pragma once

#include <map>
#include <memory>
#include <string>

#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// A store without a disk, for tests and simulation. The content that a disk would keep is a value of its own,
// so that a test can restart the code that uses the store.
class MemoryStore final : public Store {
 public:
  struct Disk {
    std::map<std::string, Entry, std::less<>> entries;
    uint64_t commits = 0;
    bool in_use = false;
    bool shared = false;  // several stores may use it at a time
  };

  // Opens the content of `disk`, which is free again when the store is destroyed. kFailedPrecondition:
  // another store uses it.
  static absl::StatusOr<std::unique_ptr<MemoryStore>> Open(std::shared_ptr<Disk> disk);
  ~MemoryStore() override;

  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override;
  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override;
  absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) override;

 private:
  explicit MemoryStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) { disk_->in_use = true; }
  std::optional<Entry> Find(absl::string_view key) const;

  std::shared_ptr<Disk> disk_;
};

}  // namespace paceline::coordinator
