#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline::tool {

// A file that is removed at the end, unless it was given a name. Keeps the errors of all calls: Check returns
// the first.
class OutFile {
 public:
  explicit OutFile(std::string path);
  ~OutFile();
  OutFile(const OutFile&) = delete;

  void Append(absl::string_view bytes);
  // Overwrites bytes that were appended.
  void WriteAt(uint64_t at, absl::string_view bytes);
  // Its bytes from `from` on, piece by piece.
  void ForEachPiece(uint64_t from, const std::function<void(absl::string_view)>& visit);
  // Gives the file its name. ALREADY_EXISTS if there is such a file, unless it may be replaced.
  void KeepAs(const std::string& name, bool replace);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // appended so far
  const absl::Status& Check() const { return status_; }

 private:
  void Note(absl::string_view what);

  const std::string path_;
  const int fd_;
  uint64_t size_ = 0;
  bool kept_ = false;
  absl::Status status_;
};

// Syncs a file that another writer has made, and gives it its name, as KeepAs does; on failure, removes it.
absl::Status KeepFileAs(const std::string& path, const std::string& name, bool replace);

}  // namespace paceline::tool
