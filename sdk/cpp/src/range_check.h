#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

namespace paceline::sdk {

// Two threads check updates of more than this many bytes of values.
inline constexpr uint64_t kCheckedAloneBytes = uint64_t{2} << 20;

// The same outcome as table::CheckRangeUpdate. Nothing of a refused push may be sent, so nothing is under way
// while a large one is checked: a second thread checks half of it.
absl::Status CheckLargeRange(const table::Schema& schema, uint64_t first, uint64_t count,
                             table::ValueView values);

}  // namespace paceline::sdk
