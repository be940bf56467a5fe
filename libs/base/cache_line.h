#pragma once

#include <cstddef>

namespace paceline {

// A line of the processor's cache, of every machine that this runs on: what lies in one line arrives
// together, and is written by one core at a time. Not std::hardware_destructive_interference_size, with which
// GCC warns that layouts depend on its flags.
inline constexpr size_t kCacheLineBytes = 64;

}  // namespace paceline
