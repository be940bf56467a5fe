#include "libs/table/bucket_match.h"

#include <bit>
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

template <size_t kEntryFloats>
uint32_t AsDefined(const Bucket& bucket, uint64_t key) {
  uint32_t matching = 0;
  for (size_t row = 0; row < kBucketFloats / kEntryFloats; ++row) {
    uint32_t halves[2];
    std::memcpy(halves, bucket.floats + row * kEntryFloats, sizeof(halves));
    if (halves[0] == static_cast<uint32_t>(key) && halves[1] == static_cast<uint32_t>(key >> 32)) {
      matching |= uint32_t{1} << (row * kEntryFloats);
    }
  }
  return matching;
}

template <size_t kEntryFloats>
void Check() {
  world::SplitMix64 random(kEntryFloats);
  int some = 0;
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t key = random.Next();
    const Bucket bucket = Random(random, key);
    const uint32_t expected = AsDefined<kEntryFloats>(bucket, key);
    some += expected != 0 ? 1 : 0;
    ASSERT_EQ(MatchingEntries<kEntryFloats>(bucket.floats, key), expected);
    ASSERT_EQ(MatchingEntriesPortably<kEntryFloats>(bucket.floats, key), expected);
  }
  EXPECT_GT(some, 1000);
}

// The buckets' words are as those of Check, so some keys are there twice: the first counts.
template <size_t kEntryFloats>
void CheckFind() {
  constexpr size_t kCount = 37;
  world::SplitMix64 random(kEntryFloats);
  for (int round = 0; round < 1'000; ++round) {
    std::vector<Bucket> buckets(kCount);
    std::vector<uint64_t> keys(kCount);
    std::vector<float*> places(kCount);
    std::vector<float*> expected(kCount, nullptr);
    std::vector<uint32_t> expected_missing;
    for (uint32_t i = 0; i < kCount; ++i) {
      keys[i] = i % 5 == 0 ? kFreeKey : random.Next();
      buckets[i] = Random(random, keys[i]);
      places[i] = buckets[i].floats;
      const uint32_t matching = AsDefined<kEntryFloats>(buckets[i], keys[i]);
      if (matching != 0 && keys[i] != kFreeKey) {
        expected[i] = places[i] + std::countr_zero(matching) + kKeyFloats;
      } else {
        expected_missing.push_back(i);
      }
    }
    for (const auto find :
         {FindInBuckets<kEntryFloats>, match_internal::FindInBucketsPortably<kEntryFloats>}) {
      std::vector<float*> entries(kCount);
      std::vector<uint32_t> missing(kCount);
      missing.resize(
          find(places, keys, absl::MakeConstSpan(places).subspan(7), entries.data(), missing.data()));
      for (const uint32_t i : missing) entries[i] = nullptr;
      ASSERT_EQ(entries, expected);
      ASSERT_EQ(missing, expected_missing);
    }
  }
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
