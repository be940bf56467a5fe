#include "examples/lib/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace paceline::examples {

int TerminalWidth() {
  winsize size = {};
  if (isatty(STDERR_FILENO) == 0) return 0;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void WriteError(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int Fail(absl::string_view program, const absl::Status& status) {
  WriteError(absl::StrCat(program, ": ", status.message(), "\n"));
  return 1;
}

}  // namespace paceline::examples
