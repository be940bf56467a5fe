#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

// What filters of the link save and cost: batches of 10,000 sorted keys of a million, the same twenty again
// and again, as in the epochs of a job. Each filter, and some together, beside none, in turns on one cluster
// that the benchmark starts: bytes on the link and CPU time a key, and keys a second. Medians. Rows of two
// values, whose keys are half of the bytes, and of 16. Values are multiples of 1/8 up to 15.875, which every
// packing can carry; LZ4 and Zstandard profit from them too. `setting.coordinator` is not used.
namespace paceline::bench {

absl::StatusOr<std::vector<Result>> Filters(const Setting& setting);
// As one table.
void PrintFilters(const std::vector<Result>& results);

}  // namespace paceline::bench
