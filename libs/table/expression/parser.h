#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/table/expression/graph.h"

namespace paceline::expression {

// What users write: the update of a value by statements, and the names of what is kept beside it and of the
// rates. docs/rules.md has the language. Borrows all texts.
struct Source {
  absl::string_view code;
  absl::Span<const absl::string_view> slots;
  absl::Span<const absl::string_view> parameters;
};

// Reads and checks an expression from anywhere. kInvalidArgument names the place, what is wrong there, what
// was expected, and the remedy.
absl::StatusOr<Graph> Parse(const Source& source);

// True if the code has `step`, the number of updates of the row, which needs a slot of its own. Of code that
// Parse refuses it says nothing.
bool CountsSteps(absl::string_view code);

}  // namespace paceline::expression
