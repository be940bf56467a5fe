#pragma once

#include "absl/status/status.h"
#include "libs/table/schema.h"
#include "paceline/push_filter.h"
#include "paceline/table_schema.h"

namespace paceline::sdk {

// OK: pushes to a table of this schema, read with this consistency, may go through the filter. Otherwise what
// of it is wrong, or why the table does not suit it. REQUIRES: filter.active().
absl::Status CheckPushFilter(const PushFilter& filter, const Consistency& consistency,
                             const table::Schema& schema);

}  // namespace paceline::sdk
