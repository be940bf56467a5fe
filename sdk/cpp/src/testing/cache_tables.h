#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/packed.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/testing/fake_cluster.h"

// Tables, batches and answers for tests of the cache.
namespace paceline::sdk::testing {

inline constexpr int kRingBits = 2;

inline std::shared_ptr<const Routes> TheRoutes() {
  static const auto routes = Routes::Of(wire::MapFromProto(FakeCluster(kRingBits, 2).Map()).value());
  return routes;
}

inline TableInfo MakeTable(uint32_t id, const table::Rule& rule, uint32_t dim = 1, bool aggregated = false) {
  table::Schema schema;
  schema.dim = dim;
  schema.rule = rule;
  schema.aggregated = aggregated;
  return {.id = TableId(id),
          .name = "t",
          .schema = schema,
          .placement = ring::Placement::Sparse(TableId(id), kRingBits).value(),
          .consistency = Ssp{}};
}

inline TableInfo MakeRanged(uint32_t id, uint64_t rows, uint32_t dim) {
  TableInfo table = MakeTable(id, table::Add{}, dim);
  table.schema.kind = table::Kind::kRanged;
  table.schema.rows = rows;
  table.placement = ring::Placement::Ranged(TableId(id), kRingBits, rows, dim).value();
  return table;
}

inline std::shared_ptr<const Batch> Grouped(const TableInfo& table, absl::Span<const uint64_t> keys,
                                            absl::Span<const float> values = {}) {
  return GroupKeys(*TheRoutes(), table.placement, table.schema.dim, keys, values, AllocateFresh);
}

// A row a segment serves, as bytes of a reply.
inline absl::Cord Bytes(const std::vector<float>& values) {
  return absl::Cord(absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * 4));
}

inline wire::Certificate Certified(SegmentId segment, uint64_t lsn, Clock min_clock, PartNumber own = 0,
                                   uint64_t epoch = 1, uint64_t began = 0) {
  return {.segment = segment,
          .served = true,
          .epoch = Epoch(epoch),
          .began = Lsn(began),
          .version = Lsn(lsn),
          .min_clock = min_clock,
          .own = own};
}

}  // namespace paceline::sdk::testing
