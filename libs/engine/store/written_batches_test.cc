#include "libs/engine/store/written_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline::engine {
namespace {

// A batch that holds so many bytes, written as the engine does.
const char* Write(WrittenBatches& batches, uint64_t number, size_t bytes) {
  rocksdb::WriteBatch batch = batches.New(bytes + 64);
  EXPECT_EQ(batch.Count(), 0u);
  EXPECT_TRUE(batch.Put("key", std::string(bytes, 'x')).ok());
  const char* at = batch.Data().data();
  batches.Add(number, std::move(batch));
  return at;
}

TEST(WrittenBatchesTest, KeepsUnsyncedBatches) {
  WrittenBatches batches;
  for (const uint64_t number : {7, 8, 9}) Write(batches, number, 1000 * number);
  std::vector<std::pair<uint64_t, size_t>> kept;
  for (const auto& one : batches.unsynced()) kept.emplace_back(one.number, one.batch.GetDataSize() / 1000);
  EXPECT_THAT(kept, ::testing::ElementsAre(std::pair(7, 7), std::pair(8, 8), std::pair(9, 9)));
  batches.Synced();
  EXPECT_THAT(batches.unsynced(), ::testing::IsEmpty());
}

TEST(WrittenBatchesTest, MemoryIsUsedAgainWhereItSuffices) {
  WrittenBatches batches;
  const char* const large = Write(batches, 1, 1'000'000);
  const char* const small = Write(batches, 2, 100'000);
  EXPECT_NE(Write(batches, 3, 100'000), small) << "what is not synced is not touched";
  batches.Synced();
  EXPECT_EQ(Write(batches, 4, 500'000), large);
  const size_t capacity = batches.unsynced().back().batch.Data().capacity();
  EXPECT_GE(capacity, 1'000'000u);
  EXPECT_NE(Write(batches, 5, 500'000), large);
}

TEST(WrittenBatchesTest, SmallPiecesDoNotTakeTheRoomOfLargeOnes) {
  WrittenBatches batches;
  for (uint64_t number = 1; number <= 1000; ++number) Write(batches, number, WrittenBatches::kSpareLeast / 2);
  batches.Synced();
  EXPECT_LT(batches.New(1).Data().capacity(), WrittenBatches::kSpareLeast / 2);
}

TEST(WrittenBatchesTest, TheMemoryItKeepsIsBounded) {
  WrittenBatches batches;
  constexpr size_t kEach = WrittenBatches::kSpareBytes / 4;
  for (uint64_t number = 1; number <= 8; ++number) Write(batches, number, kEach);
  batches.Synced();
  size_t kept = 0;
  for (int i = 0; i < 8; ++i) {
    rocksdb::WriteBatch batch = batches.New(0);  // any of them fits
    if (batch.Data().capacity() >= kEach) kept += batch.Data().capacity();
  }
  EXPECT_GT(kept, kEach);
  EXPECT_LE(kept, WrittenBatches::kSpareBytes);
}

}  // namespace
}  // namespace paceline::engine
