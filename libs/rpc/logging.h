#pragma once

#include <string>

#include "absl/status/status.h"

namespace paceline::rpc {

// Sends this process's log to standard error. `format` is "text" for people or "json" for collectors, one
// object a line; `level` is one of spdlog's: trace, debug, info, warn, error. INVALID_ARGUMENT for anything
// else. Texts from outside are escaped, so that a message stays one line. Messages are a few words that name
// the event, followed by key=value pairs. Call once, before any thread logs.
absl::Status SetUpLogging(const std::string& format, const std::string& level);

}  // namespace paceline::rpc
