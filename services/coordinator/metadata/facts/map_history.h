#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/v1/types.pb.h"

namespace paceline::coordinator {

// What differs between two maps of one ring.
struct MapChange {
  std::vector<uint32_t> segments;  // ascending
  std::vector<uint32_t> shards;    // new ones, and those of which something has changed
  std::vector<uint32_t> forgotten;
};
MapChange MapChangeOf(const v1::Map& before, const v1::Map& after);

// What the newest maps have changed, so that who has an earlier one need not be sent the whole map. Lives in
// memory: it begins anew with the coordinator.
class MapHistory {
 public:
  static constexpr size_t kVersionsMax = 256;

  // `newest` follows the last one, from which it differs by `change`; nullptr: it is the first, or nothing is
  // known of the one before.
  void Add(std::shared_ptr<const v1::Map> newest, const MapChange* change);

  // What a receiver of version `known` (0: none) lacks, as a map of the newest version that holds a delta.
  // nullptr: it needs the whole map, since its version is not known here, or most of the map has changed.
  // The same object for all of a version.
  std::shared_ptr<const v1::Map> Since(uint64_t known) const;
  // The newest map, encoded once. REQUIRES: there is one.
  const std::string& Encoded() const;
  // Its compact form (CompactMap), encoded once. REQUIRES: there is one.
  const std::string& Compact() const;

 private:
  std::shared_ptr<const v1::Map> Make(uint64_t known) const;

  std::shared_ptr<const v1::Map> newest_;
  std::deque<MapChange> changes_;  // the last of them made the newest version
  size_t changed_ = 0;             // segments in them
  // By version known.
  mutable std::map<uint64_t, std::shared_ptr<const v1::Map>> made_;
  mutable std::string encoded_;
  mutable std::string compact_;
};

}  // namespace paceline::coordinator
