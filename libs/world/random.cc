#include "libs/world/random.h"

namespace paceline::world {

uint64_t Uniform(Random& random, uint64_t n) {
  // draw * n / 2^64 lies in 0 .. n-1, but some results would get one draw more than others. The surplus draws
  // are those whose low half lies below 2^64 mod n; they are drawn again.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{random.Next()} * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t too_many = (0 - n) % n;  // 2^64 mod n
    while (static_cast<uint64_t>(product) < too_many) {
      product = Wide{random.Next()} * n;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

double UnitInterval(Random& random) {
  return static_cast<double>(random.Next() >> 11) * 0x1p-53;
}

bool Chance(Random& random, double p) {
  return UnitInterval(random) < p;
}

uint64_t SplitMix64::Next() {
  uint64_t x = state_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace paceline::world
