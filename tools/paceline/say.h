#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Output of commands, with the matching exit codes.
namespace paceline::tool {

// Writes to standard output. Control characters that would move a terminal's cursor are escaped, here and
// below. Returns 0, or 1 if it could not be written.
int Print(const std::string& text);
// Writes a line to standard error. Returns 1.
int Complain(absl::string_view text);
// Explains why the coordinator gave no answer, or this one. Returns 1.
int Complain(const absl::Status& status, const std::string& coordinator);

}  // namespace paceline::tool
