#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "libs/engine/engine.h"
#include "libs/log/segment.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/shard/disk/folder.h"
#include "services/shard/disk/segment_disk.h"

namespace paceline::shard {

// What a shard finds on its disk when it starts. Plain value.
struct DiskContents {
  struct Segment {
    std::optional<log::Segment> state;  // as of the last record; nullopt: the disk has no whole state
    SegmentDisk::Found found;
  };
  DiskOwner owner;
  v1::DataFolder folder;  // what it says of itself; no `place`
  v1::Known known;        // of its segments, and what the shard was told
  std::map<SegmentId, Segment> segments;
};

// Reads all of `engine`, before it is written to, and syncs it. Of each segment the base is taken, then its
// pages, then the records after the base; a segment that was in the middle of being written has no state, and
// is begun anew. DATA_LOSS names what is damaged. Holds all rows in memory: that is where a shard serves them
// from. `threads` make segments of what the caller's thread reads; with 0 it does that as well.
absl::StatusOr<DiskContents> LoadDisk(engine::Engine& engine, int threads = 0);

// Raises `known` to what the segment's state shows.
void LearnFrom(const log::Segment& state, v1::Known& known);

}  // namespace paceline::shard
