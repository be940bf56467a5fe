#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// Numbers in the byte order of every Paceline format: least significant byte first. Pointers need no
// alignment; on little-endian machines each call compiles to one move.
namespace paceline {

namespace internal {

template <class T>
constexpr T LittleEndian(T value) {
  if constexpr (std::endian::native == std::endian::little) {
    return value;
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    static_assert(sizeof(T) == 8);
    return __builtin_bswap64(value);
  }
}

template <class T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return LittleEndian(value);
}

template <class T>
void Store(T value, char* to) {
  value = LittleEndian(value);
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace internal

// REQUIRES for all: 4 (u32, f32) or 8 (u64) readable or writable bytes at the pointer.
inline uint32_t LoadU32(const char* from) {
  return internal::Load<uint32_t>(from);
}
inline uint64_t LoadU64(const char* from) {
  return internal::Load<uint64_t>(from);
}
inline void StoreU32(uint32_t value, char* to) {
  internal::Store(value, to);
}
inline void StoreU64(uint64_t value, char* to) {
  internal::Store(value, to);
}

// IEEE 754 binary32. Bits pass unchanged, those of a NaN too.
inline float LoadF32(const char* from) {
  return std::bit_cast<float>(LoadU32(from));
}
inline void StoreF32(float value, char* to) {
  StoreU32(std::bit_cast<uint32_t>(value), to);
}

}  // namespace paceline
