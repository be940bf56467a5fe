#include "examples/sparse_lr/read_model.h"

#include <algorithm>
#include <numeric>

#include "paceline/client.h"

namespace paceline::examples {
namespace {

constexpr uint64_t kColumnsAtOnce = 65536;

}  // namespace

absl::StatusOr<std::vector<float>> ReadModel(const RunOptions& options, uint64_t columns,
                                             uint64_t min_clock) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect({
      .coordinator = options.coordinator,
      .job = options.job,
      .client_name = "sparse_lr reader",
      .timeout = options.timeout,
  });
  if (!client.ok()) return client.status();
  absl::StatusOr<Table> table = (*client)->Open("weights");
  if (!table.ok()) return table.status();
  std::vector<float> weights(columns);
  std::vector<uint64_t> keys;
  for (uint64_t first = 0; first < columns; first += keys.size()) {
    keys.resize(std::min(kColumnsAtOnce, columns - first));
    std::iota(keys.begin(), keys.end(), first);
    const absl::Span<float> piece = absl::MakeSpan(weights).subspan(first, keys.size());
    if (absl::Status s = table->Pull(keys, piece, {.min_clock = min_clock}); !s.ok()) return s;
  }
  return weights;
}

}  // namespace paceline::examples
