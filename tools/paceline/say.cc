#include "tools/paceline/say.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "libs/base/text.h"
#include "tools/paceline/coordinator.h"

namespace paceline::tool {

int Print(const std::string& text) {
  std::fputs(EscapedLines(text).c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

int Complain(absl::string_view text) {
  std::fputs(absl::StrCat("paceline: ", EscapedLines(text), "\n").c_str(), stderr);
  return 1;
}

int Complain(const absl::Status& status, const std::string& coordinator) {
  return Complain(WhyNot(status, coordinator));
}

}  // namespace paceline::tool
