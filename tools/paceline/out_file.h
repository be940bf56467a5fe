#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline::tool {

// A file that is gone at the end, unless it was given a name. Errors of all calls are kept: Check says the
// first.
class OutFile {
 public:
  explicit OutFile(std::string path);
  ~OutFile();
  OutFile(const OutFile&) = delete;

  void Append(absl::string_view bytes);
  // Over what was appended.
  void WriteAt(uint64_t at, absl::string_view bytes);
  // Its bytes from `from` on, piece by piece.
  void ForEachPiece(uint64_t from, const std::function<void(absl::string_view)>& visit);
  // ALREADY_EXISTS if there is such a file, unless it may be replaced.
  void KeepAs(const std::string& name, bool replace);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // of what was appended
  const absl::Status& Check() const { return status_; }

 private:
  void Note(absl::string_view what);

  const std::string path_;
  const int fd_;
  uint64_t size_ = 0;
  bool kept_ = false;
  absl::Status status_;
};

// Syncs a file that somebody else has written, and gives it its name, as KeepAs does; without that it is
// removed.
absl::Status KeepFileAs(const std::string& path, const std::string& name, bool replace);

}  // namespace paceline::tool
