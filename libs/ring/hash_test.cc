#include "libs/ring/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::ring {
namespace {

struct Vector {
  uint64_t x;
  uint64_t hash;
};

struct KeyVector {
  uint32_t table;
  uint64_t key;
  uint64_t hash;
};

// The tables of docs/wire.md, computed by an implementation in another language. A change here is a change of
// the wire format.
constexpr Vector kVectors[] = {
    {0x0000000000000000u, 0x0000000000000000u}, {0x0000000000000001u, 0x5692161d100b05e5u},
    {0x0000000000000002u, 0xdbd238973a2b148au}, {0x9e3779b97f4a7c15u, 0xe220a8397b1dcdafu},
    {0x0000000100000000u, 0xd820b7e910b0f93fu}, {0x8000000000000000u, 0x25c26ea579cea98au},
    {0xffffffffffffffffu, 0xb4d055fcf2cbbd7bu},
};

constexpr KeyVector kKeyVectors[] = {
    {1, 0x0000000000000000u, 0x7ab40e090f363a7du},           {1, 0x0000000000000001u, 0xd9bf17d113f38956u},
    {1, 0xffffffffffffffffu, 0x83ec686c1600460au},           {2, 0x0000000000000000u, 0x52ead7e36ea7fea8u},
    {2, 0x0000000000000001u, 0x3ec2d42f3a45cc6eu},           {7, 0x00000000075bcd15u, 0x02b77f3e7490bb18u},
    {4294967295u, 0x00000000deadbeefu, 0xba8778d322537d41u}, {3, 0xe1aca1121cebd710u, 0x0000000000000000u},
};

TEST(HashTest, FrozenVectors) {
  for (const Vector& v : kVectors) {
    EXPECT_EQ(Mix64(v.x), v.hash) << std::hex << v.x;
  }
  for (const KeyVector& v : kKeyVectors) {
    EXPECT_EQ(Mix64(TableId(v.table), v.key), v.hash) << v.table << ' ' << std::hex << v.key;
    EXPECT_EQ(Mix64(TableId(v.table), v.key), Mix64(v.key + Mix64(v.table)));
  }
}

TEST(HashTest, UsableInConstants) {
  static_assert(Mix64(TableId(1), 0) == 0x7ab40e090f363a7du);
}

TEST(HashTest, IsABijection) {
  // Undoes the three steps; odd factors have inverses modulo 2^64, found by Newton's iteration.
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 6; ++i) {
      x *= 2 - odd * x;
    }
    return x;
  };
  const auto unshift = [](uint64_t x, int by) {
    uint64_t out = x;
    for (int i = 0; i < 64 / by; ++i) {
      out = x ^ (out >> by);
    }
    return out;
  };
  world::SplitMix64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = random.Next();
    const uint64_t second = unshift(Mix64(x), 31) * inverse(0x94d049bb133111ebu);
    const uint64_t first = unshift(second, 27) * inverse(0xbf58476d1ce4e5b9u);
    EXPECT_EQ(unshift(first, 30), x);
  }
}

TEST(HashTest, OneInputBitChangesHalfOfTheOutputBits) {
  world::SplitMix64 random(2);
  for (int bit = 0; bit < 64; ++bit) {
    int changed = 0;
    for (int i = 0; i < 1000; ++i) {
      const uint64_t x = random.Next();
      changed += std::popcount(Mix64(x) ^ Mix64(x ^ (uint64_t{1} << bit)));
    }
    EXPECT_NEAR(changed / 1000.0, 32.0, 1.6) << "bit " << bit;
  }
}

// Of each count, since vectors take the keys by eights, and at any address.
TEST(HashTest, AllAtOnceAreTheSame) {
  world::SplitMix64 random(1);
  std::vector<uint64_t> keys(100);
  for (uint64_t& key : keys) key = random.Next();
  std::vector<char> unaligned(keys.size() * sizeof(uint64_t) + 3);
  std::memcpy(unaligned.data() + 3, keys.data(), keys.size() * sizeof(uint64_t));
  const uint64_t seed = Mix64(7);
  for (size_t count = 0; count <= keys.size(); ++count) {
    std::vector<uint64_t> hashes(count + 1, 42);
    MixAll(seed, unaligned.data() + 3, count, hashes.data());
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(hashes[i], Mix64(7, keys[i])) << i << " of " << count;
    EXPECT_EQ(hashes[count], 42);
    std::vector<uint32_t> tops(count + 1, 42);
    MixTops(seed, unaligned.data() + 3, count, 60, tops.data());
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(tops[i], Mix64(7, keys[i]) >> 60) << i << " of " << count;
    EXPECT_EQ(tops[count], 42);
    for (const int shift : {60, 63}) {  // at 63 a half of the keys agree, and only short lists do
      const uint32_t top = count == 0 ? 1 : static_cast<uint32_t>(Mix64(7, keys[0]) >> shift);
      const bool all = std::all_of(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(count),
                                   [&](uint64_t key) { return Mix64(7, key) >> shift == top; });
      EXPECT_EQ(AllMixTo(seed, unaligned.data() + 3, count, shift, top), all) << "of " << count;
    }
  }
}

}  // namespace
}  // namespace paceline::ring
