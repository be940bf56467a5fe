#include "sdk/cpp/src/range_check.h"

#include <future>

#include "libs/table/admission.h"

namespace paceline::sdk {

absl::Status CheckLargeRange(const table::Schema& schema, uint64_t first, uint64_t count,
                             table::ValueView values) {
  const uint64_t half = count / 2;
  const bool alone = schema.accept_non_finite || values.size() * sizeof(float) <= kCheckedAloneBytes ||
                     values.size() / schema.dim != count;
  if (!alone) {
    // If no thread can be started, the caller does all of it when it asks for the outcome.
    auto upper = std::async([&] {
      const uint64_t from = half * schema.dim;
      return table::CheckRangeUpdate(schema, first + half, count - half,
                                     values.subview(from, values.size() - from))
          .ok();
    });
    const bool lower =
        table::CheckRangeUpdate(schema, first, half, values.subview(0, half * schema.dim)).ok();
    if (upper.get() && lower) return absl::OkStatus();
  }
  return table::CheckRangeUpdate(schema, first, count,
                                 values);  // names what is wrong by its place in the call
}

}  // namespace paceline::sdk
