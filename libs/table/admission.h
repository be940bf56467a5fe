#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

// Checks an update before it is logged: afterwards every member of the segment applies it, and none may fail.
// Pure; safe to call from any thread; one pass over the data.
namespace paceline::table {

// OK if `values` holds dim values for each key, the keys exist (ranged tables) and all values are finite
// (unless schema.accept_non_finite). Otherwise kInvalidArgument, or kOutOfRange for a key. The message names
// the field, the position, the expectation and the remedy.
absl::Status CheckUpdate(const Schema& schema, KeyView keys, ValueView values);
// The same where the keys are known to exist: there are `rows` of them.
absl::Status CheckValues(const Schema& schema, uint64_t rows, ValueView values);
absl::Status CheckRangeUpdate(const Schema& schema, uint64_t first, uint64_t count, ValueView values);

// The same for reads.
absl::Status CheckKeys(const Schema& schema, KeyView keys);
absl::Status CheckRange(const Schema& schema, uint64_t first, uint64_t count);

}  // namespace paceline::table
