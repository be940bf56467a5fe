#include "examples/lib/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "examples/lib/random.h"

namespace paceline::examples {
namespace {

size_t DivideUp(size_t a, size_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::vector<uint32_t> EpochOrder(size_t rows, uint64_t seed, int epoch) {
  Random random(Random(seed).Next() + static_cast<uint64_t>(epoch));
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  for (size_t left = rows; left > 1; --left) {
    std::swap(order[left - 1], order[random.Below(left)]);
  }
  return order;
}

Schedule::Schedule(const ScheduleOptions& options, size_t worker)
    : options_(options),
      worker_(worker),
      clocks_per_epoch_(DivideUp(DivideUp(options.examples, options.batch_size), options.workers)) {}

absl::Span<const uint32_t> Schedule::Rows(size_t clock) {
  const int epoch = static_cast<int>(clock / clocks_per_epoch_);
  if (epoch != epoch_) {
    order_ = EpochOrder(options_.examples, options_.seed, epoch);
    epoch_ = epoch;
  }
  const size_t batch = clock % clocks_per_epoch_ * options_.workers + worker_;
  const size_t from = std::min(batch * options_.batch_size, order_.size());
  return absl::MakeConstSpan(order_).subspan(from, options_.batch_size);
}

}  // namespace paceline::examples
