#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "examples/lib/totals.h"

namespace paceline::bench {

// The mean loss over a curve's clocks: the area under it, by trapezoids, over its width. 0 for fewer than two
// points.
double AreaPerClock(const std::vector<examples::LossPoint>& curve);

// The seconds after which the mean of the losses of the last `examples` is at most `loss`, between the points
// of the curve as if it fell evenly; nullopt: never.
std::optional<double> SecondsTo(const std::vector<examples::LossPoint>& curve, double loss,
                                uint64_t examples);

// The share of reads of rows that were at most so many clocks stale. 0 without reads.
double ShareUpTo(const std::map<uint64_t, uint64_t>& staleness_rows, uint64_t clocks);

// How many values of staleness each have at least this share of the reads.
uint64_t ValuesWithShare(const std::map<uint64_t, uint64_t>& staleness_rows, double share);

}  // namespace paceline::bench
