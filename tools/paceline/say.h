#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// What commands say, and the exit codes that go with it.
namespace paceline::tool {

// To standard output. What would move a terminal's cursor is escaped, here and below. 0, or 1 if it could not
// be written.
int Print(const std::string& text);
// To standard error, as a line. 1.
int Complain(absl::string_view text);
// What to tell somebody to whom the coordinator gave no answer, or this one. 1.
int Complain(const absl::Status& status, const std::string& coordinator);

}  // namespace paceline::tool
