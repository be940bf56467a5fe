#pragma once

#include <string>

#include "absl/status/status.h"

namespace paceline::rpc {

// Sends this process's log to standard error: `format` "text" for people, "json" for collectors, one object a
// line; `level` as spdlog names it: trace, debug, info, warn, error. INVALID_ARGUMENT for anything else.
// What a message repeats of others' texts is escaped: it stays one line.
// Messages are an event in a few words followed by key=value pairs. Call once, before any thread logs.
absl::Status SetUpLogging(const std::string& format, const std::string& level);

}  // namespace paceline::rpc
