#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline::examples {

// Labelled sparse rows, held as compressed rows (CSR): the non-zeros of row r are those at positions
// row_begin[r] .. row_begin[r + 1] - 1 of `columns` and `values`, columns strictly ascending within a row.
// 8 bytes a non-zero and 12 bytes a row.
struct Dataset {
  std::vector<uint64_t> row_begin{0};  // rows() + 1 positions
  std::vector<uint32_t> columns;
  std::vector<float> values;  // as many as columns; finite
  std::vector<float> labels;  // rows() of them: 1 positive, 0 negative
  uint32_t column_count = 0;  // largest column present + 1, 0 when there is none

  size_t rows() const { return labels.size(); }
  size_t nonzeros() const { return columns.size(); }
};

// Every `modulus`-th row, from row `remainder` on: how `modulus` workers share one file. Rows are counted
// from 0; blank lines are not rows. The default takes all rows.
struct RowFilter {
  uint64_t modulus = 1;
  uint64_t remainder = 0;  // less than modulus
};

// Parses LIBSVM text: a line is `label column:value column:value …`, separated by blanks or tabs. A label is
// +1, 1, 0 or -1 (the latter two are negative); columns ascend, below 2^32 - 1, and are kept as they
// stand, so whether they start from 0 or 1 is the file's business; '#' starts a comment that runs to the
// end of its line.
//
// The filter's other rows are stepped over unparsed and hence unchecked. `name` stands for the text in
// errors. InvalidArgument names the line, what is there and what was expected there. Costs about 30 ns a
// non-zero.
absl::StatusOr<Dataset> ParseLibsvm(absl::string_view text, absl::string_view name, RowFilter filter = {});

// ParseLibsvm of a file. NotFound when there is no such file, PermissionDenied when it may not be opened,
// Unavailable when reading fails. Holds the file's text in memory while it runs.
absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, RowFilter filter = {});

}  // namespace paceline::examples
