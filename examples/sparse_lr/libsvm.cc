#include "examples/sparse_lr/libsvm.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace paceline::examples {
namespace {

constexpr uint32_t kColumnLimit = std::numeric_limits<uint32_t>::max();

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// The text from `at` to the next blank, for an error message; long words are cut.
std::string WordAt(const char* at, const char* end) {
  const char* stop = at;
  while (stop != end && !IsBlank(*stop)) {
    ++stop;
  }
  constexpr ptrdiff_t kShown = 32;
  absl::string_view word(at, std::min<ptrdiff_t>(stop - at, kShown));
  return stop == at ? "the end of the line"
                    : absl::StrCat("'", absl::CHexEscape(word), stop - at > kShown ? "…'" : "'");
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

// The line without its comment and leading blanks; empty when nothing is left.
absl::string_view Content(absl::string_view line) {
  line = line.substr(0, line.find('#'));
  while (!line.empty() && IsBlank(line.front())) {
    line.remove_prefix(1);
  }
  return line;
}

// Makes room for what `text` probably holds: a non-zero of real data takes 12 characters or more.
void Reserve(absl::string_view text, RowFilter filter, Dataset* data) {
  const size_t guess = text.size() / filter.modulus / 12;
  data->columns.reserve(guess);
  data->values.reserve(guess);
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the data file ", path));
  }
  constexpr size_t kStep = size_t{1} << 20;
  std::string text;
  std::error_code unknown;  // of what is no plain file; then the text grows as it comes
  const uintmax_t size = std::filesystem::file_size(path, unknown);
  text.reserve(unknown ? kStep : size + kStep);
  size_t got = 0;
  do {
    const size_t before = text.size();
    text.resize(before + kStep);
    got = std::fread(text.data() + before, 1, kStep, file.get());
    text.resize(before + got);
  } while (got == kStep);
  if (std::ferror(file.get()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot read the data file ", path, ": ", std::strerror(errno)));
  }
  return text;
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
  for (uint64_t number = 1; !text.empty(); ++number) {
    const size_t newline = std::min(text.find('\n'), text.size());
    absl::string_view line = Content(text.substr(0, newline));
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (line.empty() || row++ % filter.modulus != filter.remainder) {
      continue;
    }
    if (absl::Status s = parser.Parse(line, number); !s.ok()) {
      return s;
    }
  }
  return data;
}

absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, RowFilter filter) {
  absl::StatusOr<std::string> text = ReadWhole(path);
  if (!text.ok()) {
    return text.status();
  }
  return ParseLibsvm(*text, path, filter);
}

}  // namespace paceline::examples
