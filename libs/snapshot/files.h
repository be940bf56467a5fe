#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The place where snapshots are kept: folders of files that are written once. Today that is a directory which
// all programs of a cluster see (store/directory.h); the interface asks for no more than object stores offer.
namespace paceline::snapshot {

// Reads a file from beginning to end. Single owner.
class Source {
 public:
  virtual ~Source() = default;
  // Up to `size` bytes; fewer only at the end of the file.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
};

// A file being written. It becomes visible once Commit has returned OK; without a Commit it never exists.
// Single owner.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // When this returns OK the file is safe from loss of power and visible to all. The last call.
  virtual absl::Status Commit() = 0;
};

// Folders of one level, with files in them. Calls block on the disk; errors name the file. Thread-safe.
class Files {
 public:
  virtual ~Files() = default;
  // OK if the folder exists already. Only the caller that begins a snapshot makes its folder: a caller that
  // writes a file into it may be late, and must not bring back a folder that was deleted meanwhile.
  virtual absl::Status MakeFolder(const std::string& folder) = 0;
  // kNotFound if the folder does not exist, also from Commit. Commit replaces an existing file of that name.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& folder,
                                                          const std::string& file) = 0;
  // kNotFound if it is not there.
  virtual absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& folder,
                                                       const std::string& file) = 0;
  // All folders, by name.
  virtual absl::StatusOr<std::vector<std::string>> Folders() = 0;
  // OK if the file does not exist. After OK the file stays removed, even after loss of power.
  virtual absl::Status Remove(const std::string& folder, const std::string& file) = 0;
  // Removes the folder with everything in it. OK if it does not exist.
  virtual absl::Status RemoveFolder(const std::string& folder) = 0;
};

// OK if a folder or file may have this name: letters, digits, '.', '-', '_', not beginning with '.', at most
// 128 of them. kInvalidArgument otherwise.
absl::Status CheckFileName(absl::string_view name);

// Reads the whole of a small file. kResourceExhausted if it is larger than `bytes_max`.
absl::StatusOr<std::string> ReadAll(Files& files, const std::string& folder, const std::string& file,
                                    size_t bytes_max);

}  // namespace paceline::snapshot
