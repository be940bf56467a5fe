#pragma once

#include <cstdint>

#include "libs/world/random.h"

namespace paceline::world {

// The kernel's random numbers, good enough for secrets. One system call a number: take a seed or an id from
// it, and a seeded generator for more. Stateless and thread-safe.
class SystemRandom final : public Random {
 public:
  // Ends the process if the kernel has none to give: going on with guessable numbers would be worse.
  uint64_t Next() override;
};

}  // namespace paceline::world
