// Whether to keep the rows of a table: what the cache costs, and what it would find if it kept them.
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/cache/piece_keys.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// Batches of so many rows are measured each time. Of smaller ones one in kOneInBatches, a prime, so that it
// keeps step with no number of parts; of fewer than kRowsMeasured rows none: the clock would cost as much.
constexpr uint64_t kRowsAlways = 256;
constexpr uint32_t kOneInBatches = 13;
constexpr uint64_t kRowsMeasured = 8;

}  // namespace

std::optional<absl::Time> RowCache::Start(uint64_t rows) {
  if (clock_ == nullptr || rows < kRowsMeasured) return std::nullopt;
  if (rows < kRowsAlways && ++batches_ % kOneInBatches != 0) return std::nullopt;
  return clock_->Now();
}

void RowCache::Stop(const std::optional<absl::Time>& began, uint64_t rows, RowCost& cost) const {
  if (began.has_value()) cost.Add(clock_->Now() - *began, rows);
}

bool RowCache::Wants(const TableInfo& table, uint64_t rows) {
  Rows* known = Find(table.id);
  if (known != nullptr && known->pushed_late) return false;
  if (known == nullptr || !known->trial.resting()) return true;
  known->trial.Passed(rows);
  return false;
}

bool RowCache::TakesWholePull(const TableInfo& table) {
  Rows* rows = Find(table.id);
  return rows != nullptr && rows->trial.TakeWholePull();
}

void RowCache::Foretell(const TableInfo& table, const CacheBound& bound, absl::Span<const uint64_t> keys) {
  Rows* rows = Find(table.id);
  if (rows == nullptr || !rows->trial.sampling()) return;
  ForetellRows(*rows, bound, keys.size(), [keys](uint64_t i) { return keys[i]; });
}

void RowCache::ForetellRange(const TableInfo& table, const CacheBound& bound, uint64_t first, uint64_t rows) {
  Rows* known = Find(table.id);
  if (known == nullptr || !known->trial.sampling()) return;
  ForetellRows(*known, bound, rows, [first](uint64_t i) { return first + i; });
}

template <class KeyAt>
void RowCache::ForetellRows(Rows& rows, const CacheBound& bound, uint64_t count, KeyAt key_at) {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t firsts = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (!rows.sample.Samples(key_at(i))) continue;
    const CacheSample::Found found = rows.sample.Look(key_at(i), bound.min_clock, bound.exact);
    hits += found == CacheSample::Found::kFit ? 1 : 0;
    misses += found == CacheSample::Found::kUnfit ? 1 : 0;
    firsts += found == CacheSample::Found::kFirst ? 1 : 0;
  }
  if (rows.trial.Looked(count, hits, misses, firsts)) OnVerdict(rows);
}

void RowCache::NoteServed(Rows& rows, const Batch& batch, const Batch::Piece& piece, Clock min_clock) {
  ForEachKey(batch, piece, [&](uint64_t key, uint32_t) {
    if (rows.sample.Samples(key)) rows.sample.Fetched(key, min_clock);
  });
}

void RowCache::PassOver(Rows& rows, const Batch& batch, const Batch::Piece& piece, PartNumber number) {
  if (rows.pulls > 0) {
    // Their answers may lack this push, and come when rows are kept again.
    if (piece.segment.v >= rows.passed.size()) rows.passed.resize(piece.segment.v + 1);
    rows.passed[piece.segment.v] = number;
  }
  if (!rows.trial.sampling() || rows.additive) return;
  ForEachKey(batch, piece, [&](uint64_t key, uint32_t) {
    if (rows.sample.Samples(key)) rows.sample.Void(key);
  });
}

void RowCache::OnVerdict(Rows& rows) {
  Clear(rows);
  if (rows.trial.resting() && watcher_ != nullptr) watcher_->Rests(rows.table);
}

}  // namespace paceline::sdk
