#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline::examples {

// Columns of the terminal that standard error is, 0 if it is none.
int TerminalWidth();

// To standard error, as it stands.
void WriteError(absl::string_view text);

// Says on standard error why `program` fails, and returns its exit code, 1.
int Fail(absl::string_view program, const absl::Status& status);

}  // namespace paceline::examples
