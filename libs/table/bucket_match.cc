#include "libs/table/bucket_match.h"

#include <array>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline::table {
namespace {

// Notes what was found of one key after the other.
struct Found {
  // `matching` is MatchingEntries of the key. No branch: which keys miss their bucket cannot be predicted.
  void Note(float* bucket, uint64_t key, uint32_t matching) {
    entries[at] = bucket + kKeyFloats + std::countr_zero(matching | uint32_t{1} << kBucketFloats);
    missing[missed] = at++;
    missed += matching == 0 || key == kFreeKey ? 1 : 0;
  }

  float** entries;
  uint32_t* missing;
  uint32_t at = 0;
  size_t missed = 0;
};

#if defined(__x86_64__)

// Which half of the key each float of a bucket is compared with. Those of values are compared as well.
template <size_t kEntryFloats>
constexpr std::array<uint32_t, kBucketFloats> Halves() {
  std::array<uint32_t, kBucketFloats> halves{};
  for (size_t at = 0; at < kBucketFloats; ++at) halves[at] = at % kEntryFloats == 1 ? 1 : 0;
  return halves;
}

template <size_t kEntryFloats>
__attribute__((target("avx512f"))) size_t FindWithAvx512(absl::Span<float* const> buckets, KeyView keys,
                                                         absl::Span<float* const> ahead, Found found) {
  alignas(kCacheLineBytes) static constexpr std::array<uint32_t, kBucketFloats> kHalves =
      Halves<kEntryFloats>();
  const __m512i halves = _mm512_load_si512(kHalves.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i < ahead.size()) __builtin_prefetch(ahead[i]);
    const __m128i key = _mm_cvtsi64_si128(static_cast<int64_t>(keys[i]));
    const __m512i wanted = _mm512_permutexvar_epi32(halves, _mm512_castsi128_si512(key));
    const uint32_t equal = _mm512_cmpeq_epi32_mask(_mm512_load_si512(buckets[i]), wanted);
    found.Note(buckets[i], keys[i], equal & (equal >> 1) & match_internal::EntryBegins<kEntryFloats>());
  }
  return found.missed;
}

#endif

}  // namespace

template <size_t kEntryFloats>
size_t match_internal::FindInBucketsPortably(absl::Span<float* const> buckets, KeyView keys,
                                             absl::Span<float* const> ahead, float** entries,
                                             uint32_t* missing) {
  Found found{.entries = entries, .missing = missing};
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i < ahead.size()) __builtin_prefetch(ahead[i]);
    found.Note(buckets[i], keys[i], MatchingEntries<kEntryFloats>(buckets[i], keys[i]));
  }
  return found.missed;
}

template <size_t kEntryFloats>
size_t FindInBuckets(absl::Span<float* const> buckets, KeyView keys, absl::Span<float* const> ahead,
                     float** entries, uint32_t* missing) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return FindWithAvx512<kEntryFloats>(buckets, keys, ahead, {.entries = entries, .missing = missing});
  }
#endif
  return match_internal::FindInBucketsPortably<kEntryFloats>(buckets, keys, ahead, entries, missing);
}

template size_t FindInBuckets<3>(absl::Span<float* const>, KeyView, absl::Span<float* const>, float**,
                                 uint32_t*);
template size_t match_internal::FindInBucketsPortably<3>(absl::Span<float* const>, KeyView,
                                                         absl::Span<float* const>, float**, uint32_t*);
template size_t FindInBuckets<4>(absl::Span<float* const>, KeyView, absl::Span<float* const>, float**,
                                 uint32_t*);
template size_t match_internal::FindInBucketsPortably<4>(absl::Span<float* const>, KeyView,
                                                         absl::Span<float* const>, float**, uint32_t*);
template size_t FindInBuckets<5>(absl::Span<float* const>, KeyView, absl::Span<float* const>, float**,
                                 uint32_t*);
template size_t match_internal::FindInBucketsPortably<5>(absl::Span<float* const>, KeyView,
                                                         absl::Span<float* const>, float**, uint32_t*);

}  // namespace paceline::table
