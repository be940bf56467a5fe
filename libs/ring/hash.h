#pragma once

#include <cstddef>
#include <cstdint>

#include "libs/base/ids.h"

// The ring's hash. Every program that places keys must compute the same bits, so the function is frozen:
// docs/wire.md has its test vectors, and to change it would be a new wire format. All arithmetic is modulo
// 2^64.

namespace paceline::ring {

// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014):
//
//   x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9
//   x = (x ^ x >> 27) * 0x94d049bb133111eb
//   x =  x ^ x >> 31
//
// A bijection of the 64-bit numbers in which every input bit reaches every output bit. Mix64(0) is 0.
// Anyone can invert it: it spreads keys, it hides nothing.
constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Member number `x` of the family of hashes that `seed` picks: Mix64(x + Mix64(seed)). Within a seed it is a
// bijection of `x`.
constexpr uint64_t Mix64(uint64_t seed, uint64_t x) {
  return Mix64(x + Mix64(seed));
}

// Where `key` of `table` lies on the ring: Mix64(key + Mix64(table)). Two tables spread the same keys
// independently, so that a key hot in both does not heat one segment twice.
constexpr uint64_t Mix64(TableId table, uint64_t key) {
  return Mix64(uint64_t{table.v}, key);
}

// hashes[i] = Mix64(key + seed) for `count` keys of 8 bytes that lie side by side, at any address. With
// AVX-512 in less than half the time of a loop over Mix64.
void MixAll(uint64_t seed, const void* keys, size_t count, uint64_t* hashes);
// tops[i] = Mix64(key + seed) >> shift, of the same keys. REQUIRES: 32 <= shift < 64.
void MixTops(uint64_t seed, const void* keys, size_t count, int shift, uint32_t* tops);
// True if that is `top` for all of them.
bool AllMixTo(uint64_t seed, const void* keys, size_t count, int shift, uint32_t top);

}  // namespace paceline::ring
