#include "sdk/cpp/src/session/routes.h"

#include <algorithm>
#include <utility>

namespace paceline::sdk {

std::shared_ptr<const Routes> Routes::Of(ring::SegmentMap map, size_t piece_bytes) {
  auto routes = std::make_shared<Routes>(
      Routes{.map = std::move(map), .rank = {}, .segments = {}, .piece_bytes = piece_bytes});
  const ring::SegmentMap& m = routes->map;
  for (uint32_t s = 0; s < m.SegmentCount(); ++s) routes->segments.emplace_back(s);
  std::stable_sort(routes->segments.begin(), routes->segments.end(),
                   [&m](SegmentId a, SegmentId b) { return m.Primary(a).shard < m.Primary(b).shard; });
  routes->rank.resize(m.SegmentCount());
  for (uint32_t r = 0; r < m.SegmentCount(); ++r) routes->rank[routes->segments[r].v] = r;
  return routes;
}

std::vector<SegmentId> Routes::PrimariesOf(ShardId shard) const {
  std::vector<SegmentId> held;
  for (SegmentId segment : map.SegmentsOf(shard)) {
    if (map.Primary(segment).shard == shard) held.push_back(segment);
  }
  return held;
}

}  // namespace paceline::sdk
