#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace paceline::table {

// Ends the process with the message `what`, which should carry the numbers: a REQUIRES was not met. That is a
// bug, and to go on would put wrong rows into every copy of the log. Errors that a peer can cause are a
// Status instead.
[[noreturn]] inline void Broken(const std::string& what) {
  std::fprintf(stderr, "paceline/table: broken invariant: %s\n", what.c_str());
  std::abort();
}

}  // namespace paceline::table
