#pragma once

#include <cstdint>

namespace paceline::world {

// The source of randomness. It is passed to all code that needs any, so that the simulator can replay a run
// from its seed.
class Random {
 public:
  virtual ~Random() = default;

  // 64 uniformly distributed bits.
  virtual uint64_t Next() = 0;
};

// The distributions are our own: those of <random> give different numbers with different libraries, and a
// seed must mean the same run everywhere. Their results for a given sequence of bits never change.

// A number in 0 .. n-1, all equally likely, exactly. REQUIRES: n ≥ 1. Draws once, rarely more often. (Lemire:
// "Fast random integer generation in an interval", 2019.)
uint64_t Uniform(Random& random, uint64_t n);

// A multiple of 2^-53 in [0, 1), all equally likely: the top 53 bits of one draw.
double UnitInterval(Random& random);

// True with probability p; never for p ≤ 0, always for p ≥ 1. Draws exactly once for every p, so that
// changing a probability does not shift the later draws of a run.
bool Chance(Random& random, double p);

// A seeded generator: SplitMix64 (Steele, Lea, Flood 2014). Fast, of full period 2^64, good enough for
// schedules and tests; not for secrets. For one thread.
class SplitMix64 final : public Random {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() override;

 private:
  uint64_t state_;
};

}  // namespace paceline::world
