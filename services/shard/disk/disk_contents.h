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

// The contents of a shard's disk when it starts. Plain value.
struct DiskContents {
  struct Segment {
    std::optional<log::Segment> state;  // as of the last record; nullopt: the disk has no whole state
    SegmentDisk::Found found;
  };
  DiskOwner owner;
  v1::DataFolder folder;  // its own notes; without `place`
  v1::Known known;        // of its segments, and what the shard was told
  std::map<SegmentId, Segment> segments;
};

// Reads all of `engine`, before anything is written to it, and syncs it. Takes the base of each segment, then
// its pages, then the records after the base. A segment whose base was never finished has no state and begins
// anew. DATA_LOSS names the damage. Keeps all rows in memory, where the shard serves them from.
// `threads` make segments of what the caller's thread reads; with 0 that thread makes them too.
absl::StatusOr<DiskContents> LoadDisk(engine::Engine& engine, int threads = 0);

// Raises `known` to the numbers in the segment's state.
void LearnFrom(const log::Segment& state, v1::Known& known);

}  // namespace paceline::shard
