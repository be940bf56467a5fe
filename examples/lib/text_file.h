#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline::examples {

// A whole file in memory. NotFound when there is no such file, PermissionDenied when it may not be opened,
// Unavailable when reading fails; each names the file.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes a file anew. The error names it.
absl::Status WriteFile(const std::string& path, absl::string_view text);

// The text from `at` to the next blank or the end, quoted for an error message; long words are cut.
std::string WordAt(const char* at, const char* end);

// Takes lines off the front of a text: without the newline, and without what follows a '#'.
class Lines {
 public:
  explicit Lines(absl::string_view text) : left_(text) {}

  // False at the end of the text.
  bool Next(absl::string_view* line);
  // Of the line that Next has given, from 1.
  uint64_t number() const { return number_; }

 private:
  absl::string_view left_;
  uint64_t number_ = 0;
};

}  // namespace paceline::examples
