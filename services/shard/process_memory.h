#pragma once

#include "services/shard/context.h"

namespace paceline::shard {

// The memory of this process as kernel and allocator count it. A few tens of microseconds.
ProcessMemory ReadProcessMemory();

}  // namespace paceline::shard
