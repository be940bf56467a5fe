#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "libs/base/cache_line.h"
#include "libs/table/views.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Where in a bucket a key is, of a sparse page's index (sparse_page.h) or of a client's cache: all its
// entries are compared at once. Any place is as likely as another, so branches would be mispredicted.
namespace paceline::table {

// The floats of a bucket, which is a cache line.
inline constexpr size_t kBucketFloats = kCacheLineBytes / sizeof(float);
// Those of an entry's key, which its row or its row's number follows.
inline constexpr size_t kKeyFloats = sizeof(uint64_t) / sizeof(float);
// The key of an entry that is free.
inline constexpr uint64_t kFreeKey = ~uint64_t{0};

// Bit f is set if an entry, of which each takes kEntryFloats floats, begins at float f of the bucket and has
// this key, its first two floats. REQUIRES: `bucket` has kBucketFloats.
template <size_t kEntryFloats>
uint32_t MatchingEntriesPortably(const float* bucket, uint64_t key) {
  uint32_t matching = 0;
  for (size_t at = 0; at + kEntryFloats <= kBucketFloats; at += kEntryFloats) {
    uint64_t there;
    std::memcpy(&there, bucket + at, sizeof(there));
    matching |= static_cast<uint32_t>(there == key) << at;
  }
  return matching;
}

#if defined(__SSE2__)

namespace match_internal {

// Four floats from `kFrom` on: all ones where they are what the key would be there. Floats that belong to no
// key are compared with one half of it.
template <size_t kEntryFloats, size_t kFrom>
__m128i Compare(const float* bucket, __m128i key) {
  constexpr auto half = [](size_t at) { return at % kEntryFloats == 1 ? 1 : 0; };
  constexpr int kHalves = half(kFrom) | half(kFrom + 1) << 2 | half(kFrom + 2) << 4 | half(kFrom + 3) << 6;
  const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bucket + kFrom));
  return _mm_cmpeq_epi32(four, _mm_shuffle_epi32(key, kHalves));
}

template <size_t kEntryFloats>
constexpr uint32_t EntryBegins() {
  uint32_t begins = 0;
  for (size_t at = 0; at + kEntryFloats <= kBucketFloats; at += kEntryFloats) begins |= uint32_t{1} << at;
  return begins;
}

}  // namespace match_internal

template <size_t kEntryFloats>
uint32_t MatchingEntries(const float* bucket, uint64_t key) {
  using match_internal::Compare;
  const __m128i wanted = _mm_cvtsi64_si128(static_cast<int64_t>(key));
  const __m128i low =
      _mm_packs_epi32(Compare<kEntryFloats, 0>(bucket, wanted), Compare<kEntryFloats, 4>(bucket, wanted));
  const __m128i high =
      _mm_packs_epi32(Compare<kEntryFloats, 8>(bucket, wanted), Compare<kEntryFloats, 12>(bucket, wanted));
  const auto halves = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  return halves & (halves >> 1) & match_internal::EntryBegins<kEntryFloats>();
}

#else

template <size_t kEntryFloats>
uint32_t MatchingEntries(const float* bucket, uint64_t key) {
  return MatchingEntriesPortably<kEntryFloats>(bucket, key);
}

#endif

// Looks for keys[i] in buckets[i], for every i: sets entries[i] to what lies behind the key there. Writes the
// i whose key is not there to `missing`, ascending, and returns how many; their entries[i] mean nothing.
// kFreeKey is in no bucket. Meanwhile fetches the buckets `ahead`, one by one: a core waits for a dozen cache
// misses at a time. With AVX-512 a bucket is compared at once.
//
// REQUIRES: as many buckets as keys, and as much room in `entries` and `missing`; at most as many `ahead`;
// buckets are cache lines.
template <size_t kEntryFloats>
size_t FindInBuckets(absl::Span<float* const> buckets, KeyView keys, absl::Span<float* const> ahead,
                     float** entries, uint32_t* missing);

namespace match_internal {
// FindInBuckets without AVX-512: for its test.
template <size_t kEntryFloats>
size_t FindInBucketsPortably(absl::Span<float* const> buckets, KeyView keys, absl::Span<float* const> ahead,
                             float** entries, uint32_t* missing);
}  // namespace match_internal

}  // namespace paceline::table
