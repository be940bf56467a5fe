#include "libs/filter/pack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/base/varint.h"

namespace paceline::filter {
namespace {

constexpr int kLowestExponent = -134;
constexpr int kHighestExponent = 121;

void StoreU16(uint16_t value, char* to) {
  to[0] = static_cast<char>(value);
  to[1] = static_cast<char>(value >> 8);
}
uint16_t LoadU16(const char* from) {
  return static_cast<uint16_t>(static_cast<uint8_t>(from[0]) | static_cast<uint8_t>(from[1]) << 8);
}

// The binary16 of exactly this value; false: there is none.
bool HalfOf(uint32_t bits, uint16_t* half) {
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t exponent = bits >> 23 & 0xff;
  const uint32_t mantissa = bits & 0x7fffff;
  if (exponent == 0xff || (exponent >= 113 && exponent <= 142)) {  // not finite, or a normal number of both
    if ((mantissa & 0x1fff) != 0) return false;
    const uint32_t biased = exponent == 0xff ? 0x1f : exponent - 112;
    *half = static_cast<uint16_t>(sign | biased << 10 | mantissa >> 13);
    return true;
  }
  if (exponent == 0) {
    *half = sign;
    return mantissa == 0;
  }
  if (exponent < 103 || exponent > 142) return false;
  const uint32_t shift = 126 - exponent;  // 14 … 23: whole multiples of 2^-24
  const uint32_t whole = mantissa | 0x800000;
  *half = static_cast<uint16_t>(sign | whole >> shift);
  return (whole & ((uint32_t{1} << shift) - 1)) == 0;
}

uint32_t OfHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0x1f) return sign | 0x7f800000 | mantissa << 13;
  if (exponent != 0) return sign | (exponent + 112) << 23 | mantissa << 13;
  return sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
}

bool PackF16(uint32_t dim, const char* row, char* to) {
  bool exact = true;
  for (uint32_t i = 0; i < dim; ++i) {
    uint16_t half = 0;
    exact &= HalfOf(LoadU32(row + 4 * i), &half);
    StoreU16(half, to + 2 * i);
  }
  return exact;
}

bool PackBf16(uint32_t dim, const char* row, char* to) {
  uint32_t lost = 0;
  for (uint32_t i = 0; i < dim; ++i) {
    const uint32_t bits = LoadU32(row + 4 * i);
    lost |= bits & 0xffff;
    StoreU16(static_cast<uint16_t>(bits >> 16), to + 2 * i);
  }
  return lost == 0;
}

bool PackInt8(uint32_t dim, const char* row, char* to) {
  uint32_t largest = 0;  // patterns of absolute values are ordered as the values are
  for (uint32_t i = 0; i < dim; ++i) largest = std::max(largest, LoadU32(row + 4 * i) & 0x7fffffff);
  if (largest >= 0x7f800000) return false;
  int exponent = kLowestExponent;
  if (largest > 0) {
    const float fraction = std::frexp(std::bit_cast<float>(largest), &exponent);  // in [0.5, 1)
    exponent = std::clamp(exponent - (fraction <= 127.0f / 128 ? 7 : 6), kLowestExponent, kHighestExponent);
  }
  to[0] = static_cast<char>(exponent - kLowestExponent);
  const double up = std::ldexp(1.0, -exponent);  // doubles: every product here is exact
  for (uint32_t i = 0; i < dim; ++i) {
    const uint32_t bits = LoadU32(row + 4 * i);
    if (bits == 0x80000000) return false;
    const double steps = std::bit_cast<float>(bits) * up;
    if (!(steps >= -127 && steps <= 127)) return false;
    const int whole = static_cast<int>(steps);
    if (whole != steps) return false;
    to[1 + i] = static_cast<char>(whole);
  }
  return true;
}

bool PackRow(Precision precision, uint32_t dim, const char* row, char* to) {
  if (precision == Precision::kF16) return PackF16(dim, row, to);
  if (precision == Precision::kBf16) return PackBf16(dim, row, to);
  return PackInt8(dim, row, to);
}

void UnpackRow(Precision precision, uint32_t dim, const char* from, char* row) {
  if (precision == Precision::kInt8) {
    const float down = std::ldexp(1.0f, static_cast<uint8_t>(from[0]) + kLowestExponent);
    for (uint32_t i = 0; i < dim; ++i) {
      const float value = static_cast<float>(static_cast<int8_t>(from[1 + i])) * down;
      StoreU32(std::bit_cast<uint32_t>(value), row + 4 * i);
    }
    return;
  }
  for (uint32_t i = 0; i < dim; ++i) {
    const uint16_t half = LoadU16(from + 2 * i);
    StoreU32(precision == Precision::kF16 ? OfHalf(half) : static_cast<uint32_t>(half) << 16, row + 4 * i);
  }
}

uint64_t PackedBytes(Precision precision, uint64_t dim) {
  return precision == Precision::kInt8 ? 1 + dim : 2 * dim;
}

absl::Status BadPacking(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("values: packed: ", what));
}

}  // namespace

std::optional<std::string> Pack(Precision precision, uint32_t dim, absl::string_view values) {
  const size_t row_bytes = size_t{dim} * sizeof(float);
  const size_t packed_bytes = PackedBytes(precision, dim);
  const size_t rows = values.size() / row_bytes;
  if (rows == 0 || packed_bytes >= row_bytes) return std::nullopt;
  std::string out;
  AppendVarint(dim, out);
  AppendVarint(rows, out);
  const size_t head = out.size() + 1;
  const size_t bitmap = (rows + 7) / 8;
  out.resize(head + bitmap + values.size());
  char* const bits = out.data() + head;
  char* to = bits + bitmap;
  size_t plain = 0;
  for (size_t i = 0; i < rows; ++i) {
    const char* const row = values.data() + i * row_bytes;
    if (PackRow(precision, dim, row, to)) {
      to += packed_bytes;
      continue;
    }
    std::memcpy(to, row, row_bytes);
    to += row_bytes;
    bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << i % 8);
    ++plain;
  }
  out.resize(static_cast<size_t>(to - out.data()));
  out[head - 1] = plain == 0 ? 0 : 1;
  if (plain == 0) out.erase(head, bitmap);
  if (out.size() >= values.size()) return std::nullopt;
  return out;
}

absl::StatusOr<std::string> Unpack(Precision precision, absl::string_view packed, size_t bytes_max) {
  std::string_view in(packed.data(), packed.size());
  ABSL_ASSIGN_OR_RETURN(const uint64_t dim, TakeVarint(in));
  ABSL_ASSIGN_OR_RETURN(const uint64_t rows, TakeVarint(in));
  if (dim == 0 || rows == 0 || dim > bytes_max / sizeof(float) || rows > bytes_max / sizeof(float) / dim) {
    return BadPacking(
        absl::StrCat(rows, " rows of ", dim, " values; at most ", bytes_max, " bytes are taken"));
  }
  if (in.empty() || in[0] < 0 || in[0] > 1) return BadPacking("its form is neither 0 nor 1");
  const uint64_t bitmap = in[0] == 0 ? 0 : (rows + 7) / 8;
  in.remove_prefix(1);
  if (bitmap > in.size()) return BadPacking("it ends among the bits of its rows");
  const std::string_view bits = in.substr(0, bitmap);
  in.remove_prefix(bitmap);
  const auto is_plain = [&](uint64_t row) {
    return bitmap > 0 && (static_cast<uint8_t>(bits[row / 8]) >> row % 8 & 1) != 0;
  };
  uint64_t plain = 0;
  for (uint64_t i = 0; bitmap > 0 && i < rows; ++i) plain += is_plain(i) ? 1 : 0;
  const uint64_t row_bytes = dim * sizeof(float);
  const uint64_t packed_bytes = PackedBytes(precision, dim);
  if (in.size() != plain * row_bytes + (rows - plain) * packed_bytes) {
    return BadPacking(
        absl::StrCat(in.size(), " bytes for ", rows, " rows of ", dim, " values, ", plain, " as f32"));
  }
  std::string out(rows * row_bytes, '\0');
  const char* from = in.data();
  for (uint64_t i = 0; i < rows; ++i) {
    char* const row = out.data() + i * row_bytes;
    if (is_plain(i)) {
      std::memcpy(row, from, row_bytes);
      from += row_bytes;
    } else {
      UnpackRow(precision, static_cast<uint32_t>(dim), from, row);
      from += packed_bytes;
    }
  }
  return out;
}

}  // namespace paceline::filter
