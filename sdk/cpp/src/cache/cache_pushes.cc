// The client's own pushes: applied to cached rows, or remembered.
#include <algorithm>
#include <cmath>
#include <utility>

#include "libs/base/little_endian.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/cache/piece_keys.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

bool AllFinite(const char* values, uint32_t dim) {
  for (uint32_t i = 0; i < dim; ++i) {
    if (!std::isfinite(LoadF32(values + i * sizeof(float)))) return false;
  }
  return true;
}

}  // namespace

void RowCache::OnPush(const TableInfo& table, const Batch& batch, const Batch::Piece& piece,
                      PartNumber number) {
  if (table.schema.aggregated || Planted(Bug::kOwnWriteMissingFromCache)) return;
  Rows* rows = Find(table.id);
  if (rows == nullptr || rows->pushed_late) return;
  rows->trial.Pushed(piece.rows);
  if (!rows->trial.whole()) return PassOver(*rows, batch, piece, number);
  bool absent = false;
  const std::optional<absl::Time> began = Start(piece.rows);
  const std::vector<Touched> touched = Touch(*rows, batch, piece, &absent);
  Apply(*rows, touched, batch.Values(piece).data(), number);
  Stop(began, piece.rows, rows->trial.costs.push);
  if (absent && rows->pulls > 0) Remember(*rows, batch, piece, number);
}

void RowCache::OnLatePush(const TableInfo& table) {
  if (!enabled() || table.schema.aggregated || Planted(Bug::kOwnWriteMissingFromCache)) return;
  Rows& rows = Of(table);
  if (!std::exchange(rows.pushed_late, true)) Clear(rows);
}

std::vector<RowCache::Touched> RowCache::Touch(Rows& rows, const Batch& batch, const Batch::Piece& piece,
                                               bool* absent) const {
  std::vector<Touched> touched;
  if (rows.held.empty()) {
    *absent = true;
    return touched;
  }
  if (!batch.ranges) return TouchKeys(rows, batch, piece, absent);
  if (piece.rows <= rows.held.size()) {
    ForEachKey(batch, piece, [&](uint64_t key, uint32_t at) {
      if (Entry* const entry = rows.held.FindEntry(key)) touched.push_back({.entry = entry, .at = at});
    });
    *absent = touched.size() < piece.rows;
    return touched;
  }
  // Ranges of more rows than there are here at all.
  *absent = true;
  uint32_t at = 0;
  for (uint32_t entry = piece.first_entry; entry < piece.first_entry + piece.entries; ++entry) {
    const uint64_t first = KeyAt(batch, entry);
    const uint64_t count = RowsAt(batch, entry);
    rows.held.ForEach([&](const Row& row) {
      const uint64_t off = row.entry->key - first;
      if (off < count) touched.push_back({.entry = row.entry, .at = at + static_cast<uint32_t>(off)});
    });
    at += static_cast<uint32_t>(count);
  }
  return touched;
}

std::vector<RowCache::Touched> RowCache::TouchKeys(Rows& rows, const Batch& batch, const Batch::Piece& piece,
                                                   bool* absent) {
  std::vector<Touched> touched;
  touched.reserve(piece.rows);
  rows.held.FindEach<RowTable::Ahead::kValuesAndRest>(
      0, piece.rows, [&](uint32_t at) { return KeyAt(batch, piece.first_entry + at); },
      [&](uint32_t at, Entry* entry, float*) {
        if (entry != nullptr) touched.push_back({.entry = entry, .at = at});
      });
  *absent = touched.size() < piece.rows;
  return touched;
}

// As the shard does: each row once, with the sum of its gradients in their order.
void RowCache::Apply(Rows& rows, const std::vector<Touched>& touched, const char* gradients,
                     PartNumber number) {
  const size_t row_bytes = rows.dim * sizeof(float);
  absl::flat_hash_map<Entry*, std::vector<float>> sums;  // of those that come more than once; empty: not yet
  for (const Touched& t : touched) {
    PartNumber& pushed = rows.held.RestOf(*t.entry).pushed;
    if (pushed == number) sums.try_emplace(t.entry);
    pushed = number;
  }
  for (const Touched& t : touched) {
    const char* gradient = gradients + t.at * row_bytes;
    const auto repeated = sums.empty() ? sums.end() : sums.find(t.entry);
    if (repeated == sums.end()) {
      ApplyOne(rows, rows.held.RowOf(*t.entry), gradient, number);
      continue;
    }
    std::vector<float>& sum = repeated->second;
    const bool first = sum.empty();
    sum.resize(rows.dim);
    for (uint32_t i = 0; i < rows.dim; ++i) {
      const float g = LoadF32(gradient + i * sizeof(float));
      sum[i] = first ? g : sum[i] + g;
    }
  }
  for (auto& [entry, sum] : sums) {
    ApplyOne(rows, rows.held.RowOf(*entry), reinterpret_cast<const char*>(sum.data()), number);
  }
}

void RowCache::ApplyOne(Rows& rows, const Row& row, const char* gradient, PartNumber number) {
  Entry& entry = *row.entry;
  if (StampOf(entry).own >= number) return;  // a fast answer holds it already
  // Values that are not finite are most likely refused.
  const bool can = rows.additive && entry.has_values() && entry.has_own && AllFinite(gradient, rows.dim);
  if (can) rows.kernel.Apply(row.values, rows.dim, gradient, rows.dim);
  entry.has_own = can;
  if (can && rows.told) KeepOwn(rows, row, gradient, number);
}

// Answers to pulls that are under way may lack this push.
void RowCache::Remember(Rows& rows, const Batch& batch, const Batch::Piece& piece, PartNumber number) {
  if (batch.ranges) return Forget(piece.segment, number);
  ForEachKey(batch, piece, [&](uint64_t key, uint32_t) {
    if (rows.held.FindEntry(key) != nullptr) return;
    if (const Row row = Add(rows, key, piece.segment)) {
      row.rest->pushed = number;
    } else {
      Forget(piece.segment, number);
    }
  });
}

void RowCache::OnDropped(const TableInfo& table, const Batch& batch, const Batch::Piece& piece,
                         PartNumber number) {
  Rows* rows = Find(table.id);
  if (rows == nullptr || !rows->additive || rows->aggregated) return;
  bool absent = false;
  for (const Touched& t : Touch(*rows, batch, piece, &absent)) {
    if (StampOf(*t.entry).own < number) VoidValues(*t.entry);
  }
}

void RowCache::OnRates(const TableInfo& table, const std::optional<table::Rule>& rule) {
  if (!enabled()) return;
  Rows& rows = Of(table);
  const bool was = std::exchange(rows.additive, rule.has_value() && table::IsAdditive(*rule));
  if (rule.has_value()) rows.kernel = table::RuleKernel(*rule);
  if (!was || rows.aggregated || Planted(Bug::kOldRatesInCache)) return;
  rows.held.ForEach([&](const Row& row) {
    BringUp(rows, *row.entry);
    if (StampOf(*row.entry).own < row.rest->pushed) VoidValues(*row.entry);
  });
}

}  // namespace paceline::sdk
