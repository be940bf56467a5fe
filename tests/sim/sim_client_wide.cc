// The table of ranges that clients push to and reduce; and filters of all tables.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/push/loan.h"
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

std::shared_ptr<const sdk::ListedKeys> SimClient::ListOf(const TablePtr& table,
                                                         const std::vector<uint64_t>& keys) {
  constexpr size_t kListsMax = 10;
  if (!world_.filtered) return nullptr;
  const auto known = lists_.find({table->id, keys});
  if (known != lists_.end()) return known->second;
  if (lists_.size() == kListsMax) lists_.clear();
  auto list = std::make_shared<const sdk::ListedKeys>(table->placement, table->schema.dim, keys);
  return lists_.emplace(std::pair(table->id, keys), std::move(list)).first->second;
}

std::shared_ptr<const sdk::Batch> SimClient::Grouped(const TablePtr& table, const std::vector<uint64_t>& keys,
                                                     const std::vector<float>& values, bool reads_back) {
  const std::shared_ptr<const sdk::Routes> routes = core().routes();
  if (const auto list = ListOf(table, keys); list != nullptr) {
    world_.marks.Hit("a user has a list of its keys");
    return sdk::PushListed(*routes, *list->Grouped(routes), values, reads_back, sdk::AllocateFresh);
  }
  return sdk::GroupKeys(*routes, table->placement, table->schema.dim, keys, values, sdk::AllocateFresh);
}

void SimClient::PushWide() {
  std::vector<uint64_t> keys;
  std::vector<float> values;
  DrawCounts(/*valid=*/true, &keys, &values, kKeys);
  for (uint64_t& key : keys) key *= kWideStep;
  Push(wide_, keys, values, /*valid=*/true);
}

struct SimClient::Lent {
  // The user waits so long at most. After kBreaksOff it wants streams broken that may still read its memory,
  // after each kSurely all that have; then it must be back.
  static constexpr absl::Duration kWaitsMax = absl::Milliseconds(60);
  static constexpr absl::Duration kBreaksOff = absl::Milliseconds(20);
  static constexpr absl::Duration kSurely = absl::Seconds(1);
  static constexpr absl::Duration kBack = absl::Seconds(3);

  // Of two blocks or three.
  static constexpr uint64_t kRows = 2 * kWideStep + 1;

  std::vector<float> values = std::vector<float>(kRows * kColumns);
  sdk::Loan loan{values};
  std::shared_ptr<sdk::Batch> batch;
  uint64_t start = 0;
  absl::Duration waited;  // for the memory, while the process did not stand still
};

void SimClient::LendWide() {
  const uint64_t first = world_.Below(kKeys - 2) * kWideStep;
  const auto lent = std::make_shared<Lent>();
  const size_t column = world_.truth.Find(session_)->column;
  for (size_t row = 0; row < Lent::kRows; row += kWideStep) {
    lent->values[row * kColumns + column] = 1 + static_cast<float>(world_.Below(9));
  }
  lent->start = starts_;
  lent_.push_back(lent);
  Enter([&] {
    lent->batch = sdk::LendRange(*core().routes(), wide_->placement, kColumns, first, Lent::kRows,
                                 lent->loan.Take(), sdk::AllocateFresh);
    PushBatch(wide_, lent->batch, DrawPriority(), /*valid=*/true);
  });
  Later(world_.Between(absl::ZeroDuration(), Lent::kWaitsMax), [this, lent] { TakeBack(lent); });
}

// As ClientState::TakeBack, which has threads to wait with.
void SimClient::TakeBack(const std::shared_ptr<Lent>& lent) {
  if (sdk::Buffer copy = sdk::CopyIfShared(lent->batch, sdk::AllocateFresh); copy != nullptr) {
    world_.marks.Hit("lent values are wanted back before they are committed");
    Enter([&] { sdk::TakeBack(*lent->batch, std::move(copy)); });
  }
  lent->batch.reset();
  AwaitReturn(lent);
}

// Also of a process that has ended: whoever carries its frames must let go of them.
void SimClient::AwaitReturn(std::shared_ptr<Lent> lent) {
  if (lent->loan.AwaitReturn(absl::ZeroDuration())) {
    std::ranges::fill(lent->values, -1000.0f);
    return;
  }
  const bool lives = up() && lent->start == starts_ && !host_.Paused(world_.Now());
  const bool surely = lent->waited > Lent::kBreaksOff && lent->waited % Lent::kSurely == Lent::kBreaksOff;
  if (lives && (surely || lent->waited == Lent::kBreaksOff)) {
    world_.marks.Hit("a stream is broken for lent values");
    Enter([&] { core().BreakOffPushes(absl::UnavailableError("lent values are wanted back"), surely); });
  }
  if (lent->waited > Lent::kBack) {
    return world_.verdict.Violated("Progress", absl::StrCat(name(), " does not get back what it has lent"));
  }
  if (!host_.Paused(world_.Now())) lent->waited += Lent::kBreaksOff;
  world_.scheduler.After(Lent::kBreaksOff, [this, lent = std::move(lent)] { AwaitReturn(lent); });
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
