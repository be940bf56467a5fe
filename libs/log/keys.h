#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/log/record.h"
#include "libs/ring/placement.h"
#include "libs/table/views.h"

// The keys of one part, in either of the wire's two forms.
namespace paceline::log {

inline constexpr size_t kKeyBytes = 8;
inline constexpr size_t kRangeBytes = 16;

inline size_t BytesPerEntry(KeyForm form) {
  return form == KeyForm::kKeys ? kKeyBytes : kRangeBytes;
}

inline table::KeyView Keys(absl::string_view bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size() / kKeyBytes};
}

inline table::ValueView Values(absl::string_view bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size() / sizeof(float)};
}

// The number of rows that the entries name. OUT_OF_RANGE if ranges name more than 2^32.
absl::StatusOr<uint64_t> CountRows(KeyForm form, absl::string_view keys);

// Calls visit(first, count) for every range in order.
void ForEachRange(absl::string_view keys, absl::FunctionRef<void(uint64_t first, uint64_t count)> visit);

// OK if every key lies in `segment` and ranges end within the table. Otherwise INVALID_ARGUMENT or
// OUT_OF_RANGE names the first key or range that does not.
absl::Status CheckPlaced(const ring::Placement& placement, SegmentId segment, KeyForm form,
                         absl::string_view keys);

}  // namespace paceline::log
