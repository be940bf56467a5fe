#include "libs/table/bucket_match.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

struct Bucket {
  alignas(64) float floats[kBucketFloats];
};

// Words of few kinds, so that halves of the key lie everywhere: in values, and across two rows.
Bucket Random(world::SplitMix64& random, uint64_t key) {
  Bucket bucket;
  for (float& at : bucket.floats) {
    const uint64_t kind = world::Uniform(random, 4);
    const auto word = kind == 0   ? static_cast<uint32_t>(key)
                      : kind == 1 ? static_cast<uint32_t>(key >> 32)
                                  : static_cast<uint32_t>(random.Next());
    std::memcpy(&at, &word, sizeof(at));
  }
  return bucket;
}

template <size_t kStride>
uint32_t AsDefined(const Bucket& bucket, uint64_t key) {
  uint32_t matching = 0;
  for (size_t row = 0; row < kBucketFloats / kStride; ++row) {
    uint32_t halves[2];
    std::memcpy(halves, bucket.floats + row * kStride, sizeof(halves));
    if (halves[0] == static_cast<uint32_t>(key) && halves[1] == static_cast<uint32_t>(key >> 32)) {
      matching |= uint32_t{1} << (row * kStride);
    }
  }
  return matching;
}

template <size_t kStride>
void Check() {
  world::SplitMix64 random(kStride);
  int some = 0;
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t key = random.Next();
    const Bucket bucket = Random(random, key);
    const uint32_t expected = AsDefined<kStride>(bucket, key);
    some += expected != 0 ? 1 : 0;
    ASSERT_EQ(MatchingRows<kStride>(bucket.floats, key), expected);
    ASSERT_EQ(MatchingRowsPortably<kStride>(bucket.floats, key), expected);
  }
  EXPECT_GT(some, 1000);
}

// Buckets with rows of distinct keys, and free ones behind them, as pages have them.
template <size_t kStride>
void CheckFind() {
  constexpr size_t kRows = kBucketFloats / kStride;
  constexpr size_t kCount = 37;
  world::SplitMix64 random(kStride);
  std::vector<Bucket> buckets(kCount);
  std::vector<uint64_t> keys(kCount);
  std::vector<float*> places(kCount);
  std::vector<float*> expected(kCount, nullptr);
  for (size_t i = 0; i < kCount; ++i) {
    places[i] = buckets[i].floats;
    std::memset(places[i], 0xff, sizeof(Bucket));
    keys[i] = i % 5 == 0 ? kFreeKey : random.Next();
    const size_t rows = world::Uniform(random, kRows + 1);
    const size_t at = world::Uniform(random, kRows);
    for (size_t row = 0; row < rows; ++row) {
      const uint64_t key = row == at && keys[i] != kFreeKey ? keys[i] : random.Next();
      std::memcpy(places[i] + row * kStride, &key, sizeof(key));
      if (key == keys[i]) expected[i] = places[i] + row * kStride + kKeyFloats;
    }
  }
  std::vector<float*> values(kCount);
  std::vector<uint32_t> missing(kCount);
  missing.resize(FindInBuckets<kStride>(absl::MakeSpan(places), keys, absl::MakeSpan(places).subspan(7),
                                        values.data(), missing.data()));
  for (const uint32_t i : missing) values[i] = nullptr;
  EXPECT_EQ(values, expected);
  EXPECT_TRUE(std::ranges::is_sorted(missing));
  EXPECT_GT(missing.size(), kCount / 5);
  EXPECT_LT(missing.size(), kCount);
}

TEST(BucketMatchTest, RowsOfThreeFloats) {
  Check<3>();
  CheckFind<3>();
}
TEST(BucketMatchTest, RowsOfFourFloats) {
  Check<4>();
  CheckFind<4>();
}
TEST(BucketMatchTest, RowsOfFiveFloats) {
  Check<5>();
  CheckFind<5>();
}

}  // namespace
}  // namespace paceline::table
