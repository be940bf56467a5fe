#include "libs/filter/delta.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

using paceline::testing::IsOk;
using ::testing::HasSubstr;

std::string BytesOf(const std::vector<uint64_t>& words) {
  std::string bytes(words.size() * 8, '\0');
  for (size_t i = 0; i < words.size(); ++i) StoreU64(words[i], bytes.data() + i * 8);
  return bytes;
}

TEST(DeltaTest, WhatIsDecodedIsWhatWasEncoded) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    world::SplitMix64 random(seed);
    std::vector<uint64_t> words(random.Next() % 50 * 2);
    const uint64_t mask = seed % 3 == 0 ? ~uint64_t{0} : uint64_t{0xffff} << random.Next() % 48;
    for (uint64_t& word : words) word = random.Next() & mask;
    if (seed % 2 == 0) std::sort(words.begin(), words.end());
    const std::string keys = BytesOf(words);
    for (const size_t stride : {1, 2}) {
      EXPECT_EQ(DecodeDelta(EncodeDelta(keys, stride), stride, keys.size()).value(), keys);
    }
  }
  const std::string ends = BytesOf({~uint64_t{0}, 0, uint64_t{1} << 63, 1});
  EXPECT_EQ(DecodeDelta(EncodeDelta(ends, 1), 1, ends.size()).value(), ends);
}

TEST(DeltaTest, SortedKeysTakeAByteOrTwo) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back(1'000'000 + 50 * i);
  EXPECT_LE(EncodeDelta(BytesOf(keys), 1).size(), 1010u);
  std::vector<uint64_t> ranges;
  for (uint64_t i = 0; i < 1000; ++i) ranges.insert(ranges.end(), {40 * i, 32});
  EXPECT_LE(EncodeDelta(BytesOf(ranges), 2).size(), 2010u);
}

TEST(DeltaTest, TheBytesOfTheWire) {
  // 300, then 7 less, then the same again.
  EXPECT_EQ(EncodeDelta(BytesOf({300, 293, 293}), 1), std::string("\xd8\x04\x0d\x00", 4));
}

TEST(DeltaTest, WhatIsMalformedIsRefused) {
  const auto refused = [](const std::string& coded, size_t bytes_max = 1 << 20) {
    return std::string(DecodeDelta(coded, 1, bytes_max).status().message());
  };
  EXPECT_THAT(refused("\x01\x80"), HasSubstr("cut off"));
  EXPECT_THAT(refused(std::string(9, '\xff') + "\x02"), HasSubstr("more than 64 bits"));
  EXPECT_THAT(refused(std::string(10, '\xff') + "\x01"), HasSubstr("more than 64 bits"));
  EXPECT_THAT(refused(std::string(3, '\0'), 23), HasSubstr("3 words; at most 23 bytes"));
  EXPECT_THAT(DecodeDelta(std::string(3, '\0'), 1, 24), IsOk());
  EXPECT_EQ(DecodeDelta("", 1, 0).value(), "");
}

}  // namespace
}  // namespace paceline::filter
