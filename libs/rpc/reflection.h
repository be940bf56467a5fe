#pragma once

#include "absl/status/status.h"

namespace paceline::rpc {

// Enables gRPC reflection for all servers built afterwards: call before the first is built.
//
// gRPC's reflection library registers itself as soon as it is in the process, so no program may be linked
// with it: this call loads it. FAILED_PRECONDITION if it is not installed (Debian: libgrpc++1.51).
absl::Status ServeReflection();

}  // namespace paceline::rpc
