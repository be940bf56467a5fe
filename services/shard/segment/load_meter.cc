#include "services/shard/segment/load_meter.h"

#include <cmath>
#include <utility>

#include "libs/log/keys.h"

namespace paceline::shard {
namespace {

// A shorter time would make a rate of one part.
constexpr absl::Duration kFoldAfter = absl::Milliseconds(100);
// Keys with a smaller share of their segment are not worth a word.
constexpr double kShareTold = 0.02;
// … and those that were sampled less often may be there by chance.
constexpr double kTimesTold = 4;

uint64_t Rounded(double amount) {
  return static_cast<uint64_t>(std::llround(amount));
}

}  // namespace

LoadMeter::LoadMeter(uint64_t seed, const world::Clock& clock)
    : clock_(clock),
      random_(seed),
      rows_to_sample_(Gap(kSampled)),
      calls_to_timed_(Gap(kTimed)),
      folded_at_(clock.Now()) {}

LoadMeter::Call LoadMeter::BeginTimed() {
  calls_to_timed_ = Gap(kTimed);
  return clock_.Now();
}

void LoadMeter::Pushed(const log::Update& update) {
  const uint64_t rows = log::CountRows(update.form, update.keys).value_or(0);
  pushed_ += rows;
  bytes_ += update.keys.size() + update.values.size();
  Sample(update.table, update.form, update.keys, rows);
}

void LoadMeter::Read(const log::Read& read) {
  if (read.changes.has_value() || read.reduction != nullptr) {
    read_ += 1;
    return;
  }
  const uint64_t rows = log::CountRows(read.form, read.keys).value_or(0);
  read_ += rows;
  bytes_ += read.keys.size();
  if (read.table == nullptr) return;
  bytes_ += rows * read.table->schema.dim * sizeof(float);
  Sample(read.table->id, read.form, read.keys, rows);
}

void LoadMeter::Sample(TableId table, log::KeyForm form, absl::string_view keys, uint64_t rows) {
  if (rows < rows_to_sample_) {
    rows_to_sample_ -= rows;
    return;
  }
  uint64_t next = rows_to_sample_;  // of the part's rows, from 1
  if (form == log::KeyForm::kKeys) {
    // Nobody may have looked at them since they came: they are fetched side by side.
    constexpr size_t kTogether = 16;
    const table::KeyView words = log::Keys(keys);
    while (next <= rows) {
      uint64_t sampled[kTogether];
      size_t count = 0;
      for (; count < kTogether && next <= rows; next += Gap(kSampled)) {
        sampled[count++] = next - 1;
        __builtin_prefetch(keys.data() + (next - 1) * log::kKeyBytes);
      }
      for (size_t i = 0; i < count; ++i) keys_.Add({.table = table.v, .key = words[sampled[i]]}, kSampled);
    }
  } else {
    uint64_t before = 0;
    log::ForEachRange(keys, [&](uint64_t first, uint64_t count) {
      for (; next <= before + count; next += Gap(kSampled))
        keys_.Add({.table = table.v, .key = first + (next - before - 1)}, kSampled);
      before += count;
    });
  }
  rows_to_sample_ = next - rows;
}

void LoadMeter::Fold() {
  const absl::Time now = clock_.Now();
  const absl::Duration took = now - folded_at_;
  if (took < kFoldAfter) return;
  const double keep = std::exp(-absl::FDivDuration(took, kWindow));
  const auto fold = [&](double& rate, double amount) {
    rate = keep * rate + (1 - keep) * amount / absl::ToDoubleSeconds(took);
  };
  fold(rates_.pushed, static_cast<double>(std::exchange(pushed_, 0)));
  fold(rates_.read, static_cast<double>(std::exchange(read_, 0)));
  fold(rates_.bytes, static_cast<double>(std::exchange(bytes_, 0)));
  fold(rates_.busy, absl::ToDoubleSeconds(std::exchange(busy_, absl::ZeroDuration())));
  weight_ = keep * weight_ + (1 - keep);
  keys_.Scale(keep);
  folded_at_ = now;
}

v1::SegmentLoad LoadMeter::Report() {
  Fold();
  v1::SegmentLoad load;
  if (weight_ == 0) return load;
  load.set_pushed_per_s(Rounded(rates_.pushed / weight_));
  load.set_read_per_s(Rounded(rates_.read / weight_));
  load.set_bytes_per_s(Rounded(rates_.bytes / weight_));
  load.set_busy_permille(static_cast<uint32_t>(Rounded(1000 * rates_.busy / weight_)));
  if (keys_.total() <= 0) return load;
  // A key's share of what was sampled is its share of the rows.
  const double rows_each = (rates_.pushed + rates_.read) / weight_ / keys_.total();
  for (const SpaceSaving::Counter& counter : keys_.Heaviest(kKeysTold)) {
    if (counter.weight < kShareTold * keys_.total()) break;
    if (counter.weight - counter.error < kTimesTold * kSampled) continue;
    v1::HotKey& key = *load.add_keys();
    key.set_table(counter.key.table);
    key.set_key(counter.key.key);
    key.set_rows_per_s(Rounded(counter.weight * rows_each));
    key.set_error(Rounded(counter.error * rows_each));
  }
  return load;
}

}  // namespace paceline::shard
