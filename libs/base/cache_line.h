#pragma once

#include <cstddef>

namespace paceline {

// A line of the processor's cache: what lies in one line arrives together, and is written by one core at a
// time. Not std::hardware_destructive_interference_size: layouts would depend on the compiler's flags.
inline constexpr size_t kCacheLineBytes = 64;

}  // namespace paceline
