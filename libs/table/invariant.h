#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace paceline::table {

// Ends the process with `what`, which carries the numbers: a REQUIRES was not met, so there is a bug, and to
// go on would put wrong rows into the log's every copy. What a peer can cause is a Status instead.
[[noreturn]] inline void Broken(const std::string& what) {
  std::fprintf(stderr, "paceline/table: broken invariant: %s\n", what.c_str());
  std::abort();
}

}  // namespace paceline::table
