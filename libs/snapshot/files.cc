#include "libs/snapshot/files.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/text.h"

namespace paceline::snapshot {

absl::Status CheckFileName(absl::string_view name) {
  const bool fits =
      !name.empty() && name.size() <= 128 && name[0] != '.' && std::ranges::all_of(name, [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
      });
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("snapshot: '", Escaped(name, kNameBytesMax),
                   "' is not a valid name; `paceline snapshot list` shows all names"));
}

absl::StatusOr<std::string> ReadAll(Files& files, const std::string& folder, const std::string& file,
                                    size_t bytes_max) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, files.Open(folder, file));
  std::string bytes;
  std::string piece(64 * 1024, '\0');
  while (true) {
    ABSL_ASSIGN_OR_RETURN(const size_t read, source->Read(piece.data(), piece.size()));
    bytes.append(piece, 0, read);
    if (bytes.size() > bytes_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat(folder, "/", file, ": larger than ", bytes_max, " bytes"));
    }
    if (read < piece.size()) return bytes;
  }
}

}  // namespace paceline::snapshot
