#include "libs/filter/compress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/base/varint.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

using paceline::testing::IsOk;
using ::testing::HasSubstr;

class CompressTest : public ::testing::TestWithParam<Filter> {};

TEST_P(CompressTest, WhatIsDecodedIsWhatWasEncoded) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    world::SplitMix64 random(seed);
    std::string bytes(random.Next() % 5000, '\0');
    const uint64_t letters = 1 + random.Next() % 256;
    for (char& byte : bytes) byte = static_cast<char>(random.Next() % letters);
    const std::string coded = Compress(GetParam(), bytes);
    EXPECT_LE(coded.size(), bytes.size() + 1);
    EXPECT_EQ(Decompress(GetParam(), coded, bytes.size()).value(), bytes);
  }
}

TEST_P(CompressTest, WhatRepeatsItselfBecomesSmall) {
  EXPECT_LE(Compress(GetParam(), std::string(100'000, 'x')).size(), 1000u);
}

TEST_P(CompressTest, NothingBecomesMoreThanTheBound) {
  const std::string coded = Compress(GetParam(), std::string(100'000, 'x'));
  EXPECT_THAT(Decompress(GetParam(), coded, 100'000), IsOk());
  EXPECT_THAT(Decompress(GetParam(), coded, 99'999).status().message(), HasSubstr("at most 99999"));
  std::string boasts;
  AppendVarint(uint64_t{1} << 60, boasts);
  EXPECT_THAT(Decompress(GetParam(), boasts + "x", 1 << 20).status().message(), HasSubstr("at most 1048576"));
  EXPECT_FALSE(Decompress(GetParam(), std::string("\0abc", 4), 2).ok());
}

TEST_P(CompressTest, AnyBytesGiveAStatus) {
  const std::string good = Compress(GetParam(), std::string(3000, 'x') + "y" + std::string(3000, 'z'));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    world::SplitMix64 random(seed);
    std::string bytes = good;
    bytes.resize(random.Next() % (bytes.size() + 1));
    for (int i = 0; i < 3 && !bytes.empty(); ++i) {
      bytes[random.Next() % bytes.size()] = static_cast<char>(random.Next());
    }
    const auto plain = Decompress(GetParam(), bytes, 10'000);
    if (plain.ok()) {
      EXPECT_LE(plain->size(), 10'000u);
    }
  }
  EXPECT_FALSE(Decompress(GetParam(), "", 100).ok());
}

INSTANTIATE_TEST_SUITE_P(Both, CompressTest, ::testing::Values(Filter::kLz4, Filter::kZstd),
                         [](const auto& which) { return std::string(NameOf(which.param)); });

}  // namespace
}  // namespace paceline::filter
