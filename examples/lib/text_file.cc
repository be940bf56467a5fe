#include "examples/lib/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace paceline::examples {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
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

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
  }
  return good ? absl::OkStatus() : absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

std::string WordAt(const char* at, const char* end) {
  const char* stop = std::find_if(at, end, IsBlank);
  constexpr ptrdiff_t kShown = 32;
  const absl::string_view word(at, static_cast<size_t>(std::min<ptrdiff_t>(stop - at, kShown)));
  return stop == at ? "the end of the line"
                    : absl::StrCat("'", absl::CHexEscape(word), stop - at > kShown ? "…'" : "'");
}

bool Lines::Next(absl::string_view* line) {
  if (left_.empty()) return false;
  const size_t newline = std::min(left_.find('\n'), left_.size());
  *line = left_.substr(0, newline);
  *line = absl::StripAsciiWhitespace(line->substr(0, line->find('#')));
  left_.remove_prefix(std::min(newline + 1, left_.size()));
  ++number_;
  return true;
}

}  // namespace paceline::examples
