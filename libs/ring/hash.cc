#include "libs/ring/hash.h"

#include "libs/base/little_endian.h"
#include "libs/base/wide_vectors.h"

namespace paceline::ring {

PACELINE_WIDEST_VECTORS void MixAll(uint64_t seed, const void* keys, size_t count, uint64_t* hashes) {
  const auto* bytes = static_cast<const char*>(keys);
  for (size_t i = 0; i < count; ++i) hashes[i] = Mix64(LoadU64(bytes + i * sizeof(uint64_t)) + seed);
}

}  // namespace paceline::ring
