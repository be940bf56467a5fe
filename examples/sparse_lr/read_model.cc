#include "examples/sparse_lr/read_model.h"

#include "examples/lib/read_rows.h"

namespace paceline::examples {

absl::StatusOr<std::vector<float>> ReadModel(const RunOptions& options, uint64_t columns,
                                             uint64_t min_clock) {
  return ReadFirstRows(ReaderClient(kProgram, options), "weights", columns, min_clock);
}

}  // namespace paceline::examples
