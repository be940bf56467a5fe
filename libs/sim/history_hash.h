#pragma once

#include <cstdint>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "libs/base/crc32c.h"
#include "libs/ring/hash.h"

namespace paceline::sim {

// A hash of all events of a run, in order. Two runs of one seed must end with the same hash: otherwise
// outside state reached the code under simulation.
class HistoryHash {
 public:
  void Add(uint64_t what) { hash_ = ring::Mix64(hash_, what); }
  void Add(const absl::Cord& bytes) {
    uint32_t crc = 0;
    for (const absl::string_view chunk : bytes.Chunks()) {
      crc = ExtendCrc32c(crc, std::string_view(chunk.data(), chunk.size()));
    }
    Add(crc);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace paceline::sim
