#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "libs/snapshot/files.h"

namespace paceline::snapshot {

// Files in memory, for tests. Not locked: one thread at a time.
class MemoryFiles final : public Files {
 public:
  absl::Status MakeFolder(const std::string& folder) override;
  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& folder,
                                                  const std::string& file) override;
  absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& folder, const std::string& file) override;
  absl::StatusOr<std::vector<std::string>> Folders() override;
  absl::Status Remove(const std::string& folder, const std::string& file) override;
  absl::Status RemoveFolder(const std::string& folder) override;

  std::map<std::string, std::map<std::string, std::string>> folders;
  absl::Status error;           // unless OK, the result of every call
  std::set<std::string> stuck;  // folders that cannot be removed
};

}  // namespace paceline::snapshot
