#pragma once

#include "absl/status/status.h"

namespace paceline::rpc {

// gRPC reflection for every server that this process builds from now on: call before the first is built.
//
// gRPC's library for it registers itself as soon as it is in the process, so no program may be linked with
// it: it is loaded when somebody asks. FAILED_PRECONDITION if it is not installed (Debian's libgrpc++1.51 has
// it).
absl::Status ServeReflection();

}  // namespace paceline::rpc
