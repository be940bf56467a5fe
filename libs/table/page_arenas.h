#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace paceline::table {

// Cuts buffers of pages from arenas of 2 MiB, each of which may be one huge page of the machine: a row of a
// large table is then found without a miss in the tables of pages, of which the processor caches only some.
//
// Best fit, the lowest address among equals; neighbours that are free are joined, so no order of growing and
// splitting pages leaves holes for good. All pages of a table grow at about the same time, so the holes that
// they leave are too small for a while: a sixth of the memory is free then. A new arena is taken only while
// what is free beside the buffers is at most a quarter of them and one arena; otherwise the caller asks
// elsewhere. An arena without buffers is given back, but one.
//
// Pure, and for one thread at a time. Costs O(log of the free pieces) a call; it is called when pages grow.
class PageArenas {
 public:
  static constexpr size_t kArenaBytes = size_t{2} << 20;
  // Buffers are multiples of this long, and aligned to it.
  static constexpr size_t kGrain = 1024;
  // Rounding a smaller buffer would waste too much, and a larger one the end of its arena.
  static constexpr size_t kBytesMin = 8 * kGrain;
  static constexpr size_t kBytesMax = kArenaBytes / 8;

  // Where arenas come from.
  class Source {
   public:
    virtual ~Source() = default;
    // kArenaBytes bytes, aligned to kArenaBytes; nullptr: there are none.
    virtual std::byte* Take() = 0;
    virtual void GiveBack(std::byte* arena) = 0;
  };

  // `source` must outlive it.
  explicit PageArenas(Source& source) : source_(source) {}
  // Gives all arenas back. REQUIRES: no buffer is in use.
  ~PageArenas();
  PageArenas(const PageArenas&) = delete;
  PageArenas& operator=(const PageArenas&) = delete;

  // nullptr: none of this size is to be had.
  std::byte* Allocate(size_t bytes);
  // False: `buffer` is not from here.
  bool Free(std::byte* buffer);

  // Bytes of arenas, and of buffers in use, as long as they were rounded.
  uint64_t held() const { return arenas_.size() * kArenaBytes; }
  uint64_t used() const { return used_; }

 private:
  static constexpr uint32_t kGrains = kArenaBytes / kGrain;

  // A run of grains is a buffer, or free and as long as can be.
  struct Arena {
    uint16_t length[kGrains] = {};  // in grains; at the first and the last grain of each run
    std::bitset<kGrains> taken;     // at the same
    uint32_t used = 0;              // grains
  };
  // Length and address of a free run.
  using Run = std::pair<uint32_t, uintptr_t>;

  static uintptr_t BaseOf(uintptr_t address) { return address & ~(uintptr_t{kArenaBytes} - 1); }
  bool Grow();
  static void Mark(Arena& arena, uint32_t first, uint32_t length, bool taken);
  void AddFree(uintptr_t base, Arena& arena, uint32_t first, uint32_t length);
  // The arena has no buffer any more.
  void OnEmpty(uintptr_t base);

  Source& source_;
  absl::flat_hash_map<uintptr_t, std::unique_ptr<Arena>> arenas_;  // by address
  std::set<Run> free_;
  uint64_t used_ = 0;
  size_t empty_ = 0;  // arenas without buffers
};

}  // namespace paceline::table
