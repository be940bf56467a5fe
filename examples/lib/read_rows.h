#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "paceline/options.h"

namespace paceline::examples {

// Rows of a table as the cluster holds them, one after the other, read by a client of its own without a
// clock. They hold every update of clocks below `min_clock`; once all workers have finished, that is every
// update.
absl::StatusOr<std::vector<float>> ReadRows(const ClientOptions& reader, const std::string& table,
                                            absl::Span<const uint64_t> keys, uint64_t min_clock);
// The rows of the keys 0 .. rows - 1.
absl::StatusOr<std::vector<float>> ReadFirstRows(const ClientOptions& reader, const std::string& table,
                                                 uint64_t rows, uint64_t min_clock);

}  // namespace paceline::examples
