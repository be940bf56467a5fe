#pragma once

#include <cstdint>

#include "paceline/internal/future_state.h"
#include "sdk/cpp/src/session/time_account.h"

namespace paceline::sdk {

// A number of this thread's own, never reused.
uint64_t ThisThread();

}  // namespace paceline::sdk
