#include "libs/ring/hash.h"

#include "libs/base/little_endian.h"
#include "libs/base/wide_vectors.h"

namespace paceline::ring {

PACELINE_WIDEST_VECTORS void MixAll(uint64_t seed, const void* keys, size_t count, uint64_t* hashes) {
  const auto* bytes = static_cast<const char*>(keys);
  for (size_t i = 0; i < count; ++i) hashes[i] = Mix64(LoadU64(bytes + i * sizeof(uint64_t)) + seed);
}

PACELINE_WIDEST_VECTORS void MixTops(uint64_t seed, const void* keys, size_t count, int shift,
                                     uint32_t* tops) {
  const auto* bytes = static_cast<const char*>(keys);
  for (size_t i = 0; i < count; ++i) {
    tops[i] = static_cast<uint32_t>(Mix64(LoadU64(bytes + i * sizeof(uint64_t)) + seed) >> shift);
  }
}

// Without a branch for each key: nearly always all of them do.
PACELINE_WIDEST_VECTORS bool AllMixTo(uint64_t seed, const void* keys, size_t count, int shift,
                                      uint32_t top) {
  const auto* bytes = static_cast<const char*>(keys);
  uint64_t differences = 0;
  for (size_t i = 0; i < count; ++i) {
    differences |= (Mix64(LoadU64(bytes + i * sizeof(uint64_t)) + seed) >> shift) ^ top;
  }
  return differences == 0;
}

}  // namespace paceline::ring
