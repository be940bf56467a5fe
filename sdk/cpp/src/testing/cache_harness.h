#pragma once

#include <optional>
#include <vector>

#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/testing/cache_tables.h"

namespace paceline::sdk::testing {

// A cache, some tables, and the answers of shards.
struct CacheHarness {
  explicit CacheHarness(uint64_t bytes = 1 << 20, uint64_t trial_rows = CacheTrial::kRows)
      : cache(bytes, trial_rows) {}

  // The answer to a pull of one key.
  void Serve(const TableInfo& table, uint64_t key, const wire::Certificate& certificate, float value) {
    const auto batch = Grouped(table, {key});
    cache.Learn(certificate);
    cache.OnServed(table, *batch, batch->pieces[0], certificate,
                   Bytes(std::vector<float>(table.schema.dim, value)));
  }
  void Push(const TableInfo& table, absl::Span<const uint64_t> keys, absl::Span<const float> values,
            PartNumber number) {
    const auto batch = Grouped(table, keys, values);
    for (const Batch::Piece& piece : batch->pieces) cache.OnPush(table, *batch, piece, number);
  }
  // The first value of a row; nullopt: not cached, or not fit.
  std::optional<float> Read(const TableInfo& table, uint64_t key, CacheBound bound) {
    std::vector<float> out(table.schema.dim, -1);
    std::vector<uint32_t> missing;
    ClockCounts hits;
    cache.Read(table, bound, {key}, 0, 1, out.data(), missing, hits);
    return missing.empty() ? std::optional(out[0]) : std::nullopt;
  }
  static SegmentId SegmentOf(const TableInfo& table, uint64_t key) { return table.placement.Of(key); }

  RowCache cache;
  const TableInfo add = MakeTable(1, table::Add{});
  const TableInfo sgd = MakeTable(2, table::Sgd{.lr = 0.5f});
  const TableInfo assign = MakeTable(3, table::Assign{});
  const TableInfo folded = MakeTable(4, table::Add{}, 1, /*aggregated=*/true);
  const SegmentId segment = SegmentOf(add, 7);
};

}  // namespace paceline::sdk::testing
