#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

namespace paceline::sdk {

// Values of which more are checked by two threads.
inline constexpr uint64_t kCheckedAloneBytes = uint64_t{8} << 20;

// table::CheckRangeUpdate with the same outcome. Of a push that is refused nothing is sent, so that nothing
// is on its way while a large one is checked: a second thread does half of it.
absl::Status CheckLargeRange(const table::Schema& schema, uint64_t first, uint64_t count,
                             table::ValueView values);

}  // namespace paceline::sdk
