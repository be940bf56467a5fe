#pragma once

#include "absl/status/statusor.h"
#include "paceline/options.h"

namespace paceline::sdk {

// The options with what their environment variables and defaults add. INVALID_ARGUMENT: one of them cannot
// be, and the message says which and why.
absl::StatusOr<ClientOptions> CompleteOptions(ClientOptions options);

}  // namespace paceline::sdk
