// The table of ranges that clients push to and reduce; and filters of all tables.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_client.h"

namespace paceline::sim {

void SimClient::OpenWide() {
  const auto begin = [this] {
    Took("to begin", started_);
    OnReady();
  };
  if (!world_.reduces) return begin();
  OpenTable("wide", {.kind = table::Kind::kRanged, .dim = kColumns, .rows = kWideRows}, consistency_, &wide_,
            begin);
}

// Nothing that rounds: what is read is judged.
filter::LinkFilters SimClient::LinkFiltersNow() const {
  using filter::Filter;
  if (!world_.filtered) return {};
  filter::LinkFilters filters{.push = {Filter::kKeys}, .pull = {Filter::kKeys}};
  if ((starts_ + static_cast<unsigned char>(name().back())) % 2 == 0) return filters;
  filters.push = {Filter::kKeys, Filter::kDelta, Filter::kInt8, Filter::kLz4};
  filters.pull = {Filter::kKeys, Filter::kDelta, Filter::kZstd};
  return filters;
}

void SimClient::PushWide() {
  std::vector<uint64_t> keys;
  std::vector<float> values;
  DrawCounts(/*valid=*/true, &keys, &values, kKeys);
  for (uint64_t& key : keys) key *= kWideStep;
  Push(wide_, keys, values, /*valid=*/true);
}

// A reduction under way, judged when it ends.
struct SimClient::WideSum {
  uint64_t start = 0;
  absl::Time began;
  TrueRead read;
  uint32_t column = 0;
  std::function<void()> done;
};

// With slices of one block each.
void SimClient::ReduceWide(std::function<void()> done) {
  std::vector<uint64_t> keys;
  for (uint64_t n = 0; n < kKeys; ++n) keys.push_back(n * kWideStep);
  doing_ = absl::StrCat("reducing ", wide_->Name());
  auto reading = std::make_shared<WideSum>(WideSum{.start = starts_,
                                                   .began = world_.Now(),
                                                   .read = ReadOf(wide_, keys, std::nullopt, core().clock()),
                                                   .column = static_cast<uint32_t>(world_.Below(kColumns)),
                                                   .done = std::move(done)});
  Enter([&] {
    core().Reduce({.table = wide_,
                   .query = {.op = table::ReduceOp::kSum, .column = reading->column, .slice_values = 1},
                   .timeout = kTimeout,
                   .ended = [this, reading](const absl::StatusOr<table::Partial>& whole) {
                     Later(absl::ZeroDuration(), [this, reading, whole] { OnReduced(*reading, whole); });
                   }});
  });
}

void SimClient::OnReduced(const WideSum& reading, const absl::StatusOr<table::Partial>& whole) {
  if (reading.start != starts_ || !up()) return;
  if (whole.ok()) {
    Took("a reduction", reading.began);
    world_.marks.Hit("a table is reduced");
    world_.invariants.OnReduced(reading.read, reading.column, whole->rows,
                                whole->Value(table::ReduceOp::kSum));
    reading.done();
  } else if (absl::IsInvalidArgument(whole.status()) && world_.truth.IsDropped(wide_->id)) {
    reading.done();  // with its job
  } else if (core().failure().ok()) {
    world_.verdict.Violated(
        "Progress", absl::StrCat("a reduction of ", name(), " ends with ", whole.status().ToString()));
  }
}

}  // namespace paceline::sim
