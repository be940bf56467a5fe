#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace paceline {

// A number with a meaning: a SegmentId cannot be passed where a TableId is wanted. Costs nothing at run time.
template <class Tag, class Rep>
struct Id {
  using rep = Rep;
  Rep v{};

  constexpr Id() = default;
  constexpr explicit Id(Rep value) : v(value) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(std::move(h), id.v);
  }
};

template <class Tag, class Rep>
std::string ToString(Id<Tag, Rep> id) {
  return std::to_string(id.v);
}

using SegmentId = Id<struct SegmentTag, uint32_t>;  // 0 .. 2^k-1, position on the ring
using TableId = Id<struct TableTag, uint32_t>;      // issued by the coordinator from 1, never reused
using JobId = Id<struct JobTag, uint32_t>;          // issued by the coordinator from 1, never reused
using SessionId = Id<struct SessionTag, uint64_t>;  // one incarnation of one client, from 1, never reused
using ShardId = Id<struct ShardTag, uint32_t>;      // a place in the cluster; survives restarts
using Incarnation = Id<struct IncarnationTag, uint64_t>;  // one start of a shard's process
using Epoch = Id<struct EpochTag, uint64_t>;              // configuration number of one segment, from 1
using MapVersion = Id<struct MapVersionTag, uint64_t>;    // from 1; 0 is "no map yet"
using CatalogueVersion = Id<struct CatalogueVersionTag, uint64_t>;  // of the list of tables, from 1
using Lsn = Id<struct LsnTag, uint64_t>;  // position in a segment's log, from 1; 0 is before it
using Clock = uint64_t;                   // a worker's iteration count
using PartNumber = uint64_t;              // of a part within its line, from 1; 0 is "none yet"

// Which of a session's two number lines in a segment a part belongs to: that of tables applied on arrival
// or that of aggregated tables. The values are the wire's.
enum class Line : uint8_t { kArrival = 1, kAggregated = 2 };

}  // namespace paceline
