#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Where snapshots are kept: folders of files that are written once. Today a directory that all programs of a
// cluster see (store/directory.h); the interface asks for no more than object stores have.
namespace paceline::snapshot {

// Bytes from the beginning of a file to its end. Single owner.
class Source {
 public:
  virtual ~Source() = default;
  // Up to `size` bytes; fewer only at the end of the file.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
};

// A file being written. Nobody sees it before Commit has returned OK; without a Commit it is never there.
// Single owner.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Safe from loss of power, and seen by all, when this returns OK. The last call.
  virtual absl::Status Commit() = 0;
};

// Folders of one level, and files in them. Calls block on the disk; errors name the file. Thread-safe.
class Files {
 public:
  virtual ~Files() = default;
  // OK if it is there already. Only whoever begins a snapshot makes its folder; who writes a file into it may
  // be late, and must not bring back what was deleted meanwhile.
  virtual absl::Status MakeFolder(const std::string& folder) = 0;
  // kNotFound if the folder is not there, also of Commit. A file of that name that is there is replaced by
  // Commit.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& folder,
                                                          const std::string& file) = 0;
  // kNotFound if it is not there.
  virtual absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& folder,
                                                       const std::string& file) = 0;
  // All folders, by name.
  virtual absl::StatusOr<std::vector<std::string>> Folders() = 0;
  // OK if the file is not there; once this returned OK it is not even after loss of power.
  virtual absl::Status Remove(const std::string& folder, const std::string& file) = 0;
  // With all that is in it. OK if it is not there.
  virtual absl::Status RemoveFolder(const std::string& folder) = 0;
};

// OK if a folder or file may have this name: letters, digits, '.', '-', '_', not beginning with '.', at most
// 128 of them. kInvalidArgument otherwise.
absl::Status CheckFileName(absl::string_view name);

// The whole of a small file. kResourceExhausted if it is larger than `bytes_max`.
absl::StatusOr<std::string> ReadAll(Files& files, const std::string& folder, const std::string& file,
                                    size_t bytes_max);

}  // namespace paceline::snapshot
