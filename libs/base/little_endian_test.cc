#include "libs/base/little_endian.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(LittleEndianTest, LeastSignificantByteFirst) {
  std::string bytes(8, '\0');
  StoreU64(0x0807060504030201u, bytes.data());
  EXPECT_EQ(bytes, "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(LoadU64(bytes.data()), 0x0807060504030201u);
  EXPECT_EQ(LoadU32(bytes.data()), 0x04030201u);
  StoreU32(0xfffefdfcu, bytes.data());
  EXPECT_EQ(bytes, "\xfc\xfd\xfe\xff\x05\x06\x07\x08");
}

TEST(LittleEndianTest, AnyAlignment) {
  std::string bytes(16, '\0');
  for (size_t offset = 0; offset <= 8; ++offset) {
    StoreU64(0x1122334455667788u + offset, bytes.data() + offset);
    EXPECT_EQ(LoadU64(bytes.data() + offset), 0x1122334455667788u + offset);
  }
}

TEST(LittleEndianTest, FloatsKeepTheirBits) {
  std::string bytes(4, '\0');
  StoreF32(1.0f, bytes.data());
  EXPECT_EQ(bytes, std::string("\0\0\x80\x3f", 4));
  for (float value : {0.0f, -0.0f, 1.5e-42f, std::numeric_limits<float>::infinity()}) {
    StoreF32(value, bytes.data());
    EXPECT_EQ(LoadF32(bytes.data()), value);
    EXPECT_EQ(std::signbit(LoadF32(bytes.data())), std::signbit(value));
  }
  StoreU32(0x7fc12345u, bytes.data());
  const float nan = LoadF32(bytes.data());
  StoreF32(nan, bytes.data());
  EXPECT_EQ(LoadU32(bytes.data()), 0x7fc12345u);
}

}  // namespace
}  // namespace paceline
