#include "libs/base/crc32c.h"

#include <array>

#include "libs/base/little_endian.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace paceline {
namespace {

// Slice-by-8: tables[j][b] is what byte b contributes from j bytes before the end of a group of eight.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][b] = crc;
  }
  for (size_t j = 1; j < tables.size(); ++j) {
    for (uint32_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[j - 1][b];
      tables[j][b] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t ByTables(uint32_t crc, const char* p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    const uint64_t group = LoadU64(p) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) {
      crc ^= kTables[7 - i][(group >> (8 * i)) & 0xff];
    }
  }
  for (; n > 0; ++p, --n) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*p)) & 0xff];
  }
  return crc;
}

using Extend = uint32_t (*)(uint32_t crc, const char* p, size_t n);

#if defined(__x86_64__)
// The instruction's result is there three cycles later, and one can begin each cycle. So three lanes of a
// piece are summed side by side; a sum is then moved past the lanes behind its own, as if they were zeros.
constexpr size_t kLane = 1024;

// zeros[j][b]: what byte j of a sum, which is b, becomes after kLane zeros.
using Zeros = std::array<std::array<uint32_t, 256>, 4>;

constexpr Zeros MakeZeros() {
  Zeros zeros{};
  for (size_t j = 0; j < zeros.size(); ++j) {
    for (uint32_t bit = 1; bit < 256; bit *= 2) {
      uint32_t crc = bit << (8 * j);
      for (size_t i = 0; i < kLane; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
      for (uint32_t below = 0; below < bit; ++below) zeros[j][bit + below] = crc ^ zeros[j][below];
    }
  }
  return zeros;
}

constexpr Zeros kZeros = MakeZeros();

uint32_t PastLane(uint64_t crc) {
  return kZeros[0][crc & 0xff] ^ kZeros[1][(crc >> 8) & 0xff] ^ kZeros[2][(crc >> 16) & 0xff] ^
         kZeros[3][(crc >> 24) & 0xff];
}

__attribute__((target("sse4.2"))) uint32_t BySse42(uint32_t crc, const char* p, size_t n) {
  for (; n >= 3 * kLane; p += 3 * kLane, n -= 3 * kLane) {
    uint64_t first = crc;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      first = _mm_crc32_u64(first, LoadU64(p + i));
      second = _mm_crc32_u64(second, LoadU64(p + kLane + i));
      third = _mm_crc32_u64(third, LoadU64(p + 2 * kLane + i));
    }
    crc = PastLane(PastLane(first) ^ second) ^ static_cast<uint32_t>(third);
  }
  uint64_t wide = crc;
  for (; n >= 8; p += 8, n -= 8) {
    wide = _mm_crc32_u64(wide, LoadU64(p));
  }
  crc = static_cast<uint32_t>(wide);
  for (; n > 0; ++p, --n) {
    crc = _mm_crc32_u8(crc, static_cast<unsigned char>(*p));
  }
  return crc;
}

Extend Fastest() {
  return __builtin_cpu_supports("sse4.2") ? BySse42 : ByTables;
}
#else
Extend Fastest() {
  return ByTables;
}
#endif

}  // namespace

uint32_t Crc32c(std::string_view data) {
  return ExtendCrc32c(0, data);
}

uint32_t ExtendCrc32c(uint32_t crc, std::string_view b) {
  static const Extend extend = Fastest();
  return ~extend(~crc, b.data(), b.size());
}

namespace internal {

uint32_t ExtendCrc32cPortable(uint32_t crc, std::string_view b) {
  return ~ByTables(~crc, b.data(), b.size());
}

}  // namespace internal
}  // namespace paceline
