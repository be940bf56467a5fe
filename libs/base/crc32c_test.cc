#include "libs/base/crc32c.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

std::string Ascending() {
  std::string bytes;
  for (int i = 0; i < 32; ++i) {
    bytes.push_back(static_cast<char>(i));
  }
  return bytes;
}

// Bit by bit, as the definition reads.
uint32_t Slow(std::string_view data) {
  uint32_t crc = ~0u;
  for (char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
  }
  return ~crc;
}

TEST(Crc32cTest, VectorsOfRfc3720) {
  const std::string ascending = Ascending();
  const std::string descending(ascending.rbegin(), ascending.rend());
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
}

TEST(Crc32cTest, BothWaysAgreeWithTheDefinitionAtEveryLengthAndOffset) {
  std::string bytes;
  uint32_t state = 1;
  for (int i = 0; i < 80; ++i) {
    state = state * 1664525 + 1013904223;
    bytes.push_back(static_cast<char>(state >> 24));
  }
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t n = 0; offset + n <= bytes.size(); ++n) {
      const std::string_view piece = std::string_view(bytes).substr(offset, n);
      EXPECT_EQ(Crc32c(piece), Slow(piece));
      EXPECT_EQ(internal::ExtendCrc32cPortable(0, piece), Slow(piece));
    }
  }
}

// Long pieces are summed in lanes of 1 KiB side by side.
TEST(Crc32cTest, LongPiecesAgreeWithTheDefinition) {
  std::string bytes;
  uint32_t state = 2;
  for (int i = 0; i < 10'000; ++i) {
    state = state * 1664525 + 1013904223;
    bytes.push_back(static_cast<char>(state >> 24));
  }
  for (const size_t n : {3071, 3072, 3073, 6143, 6144, 6151, 9999}) {
    const std::string_view piece = std::string_view(bytes).substr(1, n);
    EXPECT_EQ(Crc32c(piece), Slow(piece)) << n;
    EXPECT_EQ(ExtendCrc32c(Crc32c(piece.substr(0, 5)), piece.substr(5)), Slow(piece)) << n;
  }
}

TEST(Crc32cTest, PiecesAddUp) {
  const std::string whole = Ascending();
  for (size_t n = 0; n <= whole.size(); ++n) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(whole.substr(0, n)), whole.substr(n)), Crc32c(whole)) << n;
  }
}

}  // namespace
}  // namespace paceline
