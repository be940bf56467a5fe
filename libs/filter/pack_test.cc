#include "libs/filter/pack.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/base/varint.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

using paceline::testing::IsOk;
using ::testing::HasSubstr;

constexpr Precision kAll[] = {Precision::kF16, Precision::kBf16, Precision::kInt8};

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void ExpectSame(Precision precision, uint32_t dim, const std::string& bytes) {
  const auto packed = Pack(precision, dim, bytes);
  if (!packed.has_value()) return;
  ASSERT_LT(packed->size(), bytes.size());
  const auto back = Unpack(precision, *packed, bytes.size());
  ASSERT_THAT(back, IsOk());
  ASSERT_TRUE(*back == bytes) << static_cast<int>(precision) << " " << dim;
}

TEST(PackTest, AnyRowsComeBackBitForBit) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    world::SplitMix64 random(seed);
    const auto dim = static_cast<uint32_t>(1 + random.Next() % 20);
    std::vector<float> values((1 + random.Next() % 30) * dim);
    for (Precision precision : kAll) {
      for (float& value : values) {
        // Any pattern; or few bits, as they are after rounding; or a small number.
        const auto bits = static_cast<uint32_t>(random.Next());
        const uint64_t kind = random.Next() % 4;
        value = kind == 0   ? std::bit_cast<float>(bits)
                : kind == 1 ? std::bit_cast<float>(bits & 0xffffe000)
                : kind == 2 ? std::bit_cast<float>(bits & 0xffff0000)
                            : static_cast<float>(static_cast<int8_t>(bits));
      }
      ExpectSame(precision, dim, BytesOf(values));
    }
  }
}

TEST(PackTest, EveryNumberOf16BitsIsCarried) {
  std::vector<float> bf16;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) bf16.push_back(std::bit_cast<float>(bits << 16));
  const std::string bytes = BytesOf(bf16);
  const auto packed = Pack(Precision::kBf16, 1, bytes);
  ASSERT_TRUE(packed.has_value());
  EXPECT_LE(packed->size(), bytes.size() / 2 + 8);
  ExpectSame(Precision::kBf16, 1, bytes);

  std::string halves;  // as a peer sends them: what they become is packed to the same again
  AppendVarint(1, halves);
  AppendVarint(1 << 16, halves);
  halves.push_back(0);
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    halves.push_back(static_cast<char>(bits));
    halves.push_back(static_cast<char>(bits >> 8));
  }
  const std::string values = Unpack(Precision::kF16, halves, 1 << 18).value();
  EXPECT_TRUE(Pack(Precision::kF16, 1, values) == halves);
  float largest = 0;
  std::memcpy(&largest, values.data() + 0x7bff * sizeof(float), sizeof(float));
  EXPECT_EQ(largest, 65504.0f);
  float smallest = 0;
  std::memcpy(&smallest, values.data() + sizeof(float), sizeof(float));
  EXPECT_EQ(smallest, 0x1p-24f);
}

TEST(PackTest, RoundedRowsArePackedWhole) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    world::SplitMix64 random(seed);
    constexpr uint32_t kDim = 16;
    for (const Precision precision : kAll) {
      std::vector<float> values(kDim * 10);
      const auto exponent = static_cast<int>(random.Next() % 30) - 20;
      for (float& value : values) {
        value = std::ldexp(static_cast<float>(static_cast<int32_t>(random.Next())) * 0x1p-31f, exponent);
      }
      for (size_t row = 0; row < 10; ++row) {
        Quantise(precision, std::span<float>(values.data() + row * kDim, kDim));
      }
      const std::string bytes = BytesOf(values);
      const auto packed = Pack(precision, kDim, bytes);
      ASSERT_TRUE(packed.has_value());
      const size_t row_bytes = precision == Precision::kInt8 ? kDim + 1 : 2 * kDim;
      EXPECT_EQ(packed->size(), 3 + 10 * row_bytes);
      ExpectSame(precision, kDim, bytes);
    }
  }
}

TEST(PackTest, ARowThatWouldLoseTravelsAsItIs) {
  const std::string bytes = BytesOf({1, 2, 0.1f, 3, 4, -0.0f, 5, 127});
  const auto packed = Pack(Precision::kInt8, 2, bytes);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(packed->size(), 3 + 1 + 2 * 3 + 2 * 8);  // rows 1 and 2 are f32
  ExpectSame(Precision::kInt8, 2, bytes);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Pack(Precision::kInt8, 2, BytesOf({inf, 1})), std::nullopt);
  EXPECT_EQ(Pack(Precision::kF16, 1, BytesOf({0.1f, 65536.0f})), std::nullopt);
}

TEST(PackTest, WhatIsMalformedIsRefused) {
  const auto refused = [](const std::string& packed, size_t bytes_max = 1 << 10) {
    return std::string(Unpack(Precision::kF16, packed, bytes_max).status().message());
  };
  const std::string good = Pack(Precision::kF16, 2, BytesOf({1, 2, 3, 4, 5, 6, 7, 8})).value();
  EXPECT_THAT(Unpack(Precision::kF16, good, 32), IsOk());
  EXPECT_THAT(refused(good, 31), HasSubstr("at most 31 bytes"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 1)), HasSubstr("4 rows of 2 values"));
  EXPECT_THAT(refused(good + "x"), HasSubstr("4 rows of 2 values"));
  EXPECT_THAT(refused(std::string("\x01\x01\x02", 3)), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(refused(std::string("\x01\x09\x01\x00", 4)), HasSubstr("ends among the bits"));
  EXPECT_THAT(refused(std::string("\x00\x01\x00", 3)), HasSubstr("1 rows of 0 values"));
  std::string boasts;
  AppendVarint(uint64_t{1} << 40, boasts);
  AppendVarint(uint64_t{1} << 40, boasts);
  EXPECT_THAT(refused(boasts), HasSubstr("at most 1024 bytes"));
  EXPECT_NE(refused(""), "");
}

TEST(PackTest, AnyBytesGiveAStatus) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    world::SplitMix64 random(seed);
    std::string bytes(random.Next() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Next() % (seed % 2 == 0 ? 8 : 256));
    for (const Precision precision : kAll) {
      const auto values = Unpack(precision, bytes, 1000);
      if (values.ok()) {
        EXPECT_LE(values->size(), 1000u);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::filter
