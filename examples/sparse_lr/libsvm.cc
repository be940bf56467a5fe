#include "examples/sparse_lr/libsvm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "examples/lib/text_file.h"

namespace paceline::examples {
namespace {

constexpr uint32_t kColumnLimit = std::numeric_limits<uint32_t>::max();

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Parses one line at a time into a Dataset.
class LineParser {
 public:
  LineParser(absl::string_view name, Dataset* data) : name_(name), data_(data) {}

  // Appends the row of `line`, which has neither comment nor leading blanks and is not empty.
  absl::Status Parse(absl::string_view line, uint64_t number) {
    line_number_ = number;
    at_ = line.data();
    end_ = line.data() + line.size();
    if (absl::Status s = Label(); !s.ok()) {
      return s;
    }
    int64_t last = -1;
    while (SkipBlanks()) {
      if (absl::Status s = NonZero(&last); !s.ok()) {
        return s;
      }
    }
    data_->row_begin.push_back(data_->columns.size());
    data_->column_count = std::max(data_->column_count, static_cast<uint32_t>(last + 1));
    return absl::OkStatus();
  }

 private:
  // False at the end of the line.
  bool SkipBlanks() {
    while (at_ != end_ && IsBlank(*at_)) {
      ++at_;
    }
    return at_ != end_;
  }

  bool AtWordEnd() const { return at_ == end_ || IsBlank(*at_); }

  absl::Status Error(const char* where, absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_number_, ": expected ", expected, ", found ", WordAt(where, end_)));
  }

  absl::Status Label() {
    const char* start = at_;
    const bool plus = *at_ == '+';
    float label = 0;
    auto [stop, ec] = std::from_chars(at_ + plus, end_, label);
    at_ = stop;
    const bool known = label == 1 || (!plus && (label == 0 || label == -1));
    if (ec != std::errc() || !AtWordEnd() || !known) {
      return Error(start, "a label, one of +1, 1, 0 and -1");
    }
    data_->labels.push_back(label > 0 ? 1.0f : 0.0f);
    return absl::OkStatus();
  }

  absl::Status NonZero(int64_t* last) {
    const char* start = at_;
    uint32_t column = 0;
    auto [colon, column_error] = std::from_chars(at_, end_, column);
    if (column_error != std::errc() || colon == end_ || *colon != ':' || column == kColumnLimit) {
      return Error(start, "column:value with a column from 0 to 4294967294");
    }
    if (column <= *last) {
      return Error(start, absl::StrCat("a column above ", *last, " (columns ascend within a row)"));
    }
    *last = column;
    return Value(colon + 1, column);
  }

  absl::Status Value(const char* start, uint32_t column) {
    float value = 0;
    auto [stop, ec] = std::from_chars(start, end_, value);
    at_ = stop;
    if (ec != std::errc() || !AtWordEnd() || !std::isfinite(value)) {
      return Error(start, absl::StrCat("a finite number as the value of column ", column));
    }
    data_->columns.push_back(column);
    data_->values.push_back(value);
    return absl::OkStatus();
  }

  absl::string_view name_;
  Dataset* data_;
  uint64_t line_number_ = 0;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

// Makes room for what `text` probably holds: a non-zero of real data takes 12 characters or more.
void Reserve(absl::string_view text, RowFilter filter, Dataset* data) {
  const size_t guess = text.size() / filter.modulus / 12;
  data->columns.reserve(guess);
  data->values.reserve(guess);
}

}  // namespace

absl::StatusOr<Dataset> ParseLibsvm(absl::string_view text, absl::string_view name, RowFilter filter) {
  if (filter.modulus == 0 || filter.remainder >= filter.modulus) {
    return absl::InvalidArgumentError(
        absl::StrCat("row filter: expected a remainder below the modulus, found ", filter.remainder, " mod ",
                     filter.modulus));
  }
  Dataset data;
  Reserve(text, filter, &data);
  LineParser parser(name, &data);
  uint64_t row = 0;
  absl::string_view line;
  for (Lines lines(text); lines.Next(&line);) {
    if (line.empty() || row++ % filter.modulus != filter.remainder) {
      continue;
    }
    if (absl::Status s = parser.Parse(line, lines.number()); !s.ok()) {
      return s;
    }
  }
  return data;
}

absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, RowFilter filter) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return text.status();
  }
  return ParseLibsvm(*text, path, filter);
}

}  // namespace paceline::examples
