#include "libs/log/log_tail.h"

#include <gtest/gtest.h>

#include "libs/log/record_codec.h"

namespace paceline::log {
namespace {

absl::Cord Bytes(uint64_t clock) {
  return EncodeRecord(Advance{.job = JobId(1), .min_clock = clock});
}

TEST(LogTailTest, KnowsTheEpochOfItsRecordsAndOfTheOneBefore) {
  LogTail tail({.epoch = Epoch(2), .lsn = Lsn(10)});
  tail.Append(Epoch(2), Bytes(1));
  tail.Append(Epoch(3), Bytes(2));
  EXPECT_EQ(tail.end(), (LogPosition{.epoch = Epoch(3), .lsn = Lsn(12)}));
  EXPECT_EQ(tail.EpochAt(Lsn(9)), std::nullopt);
  EXPECT_EQ(tail.EpochAt(Lsn(10)), Epoch(2));
  EXPECT_EQ(tail.EpochAt(Lsn(12)), Epoch(3));
  EXPECT_EQ(tail.EpochAt(Lsn(13)), std::nullopt);
  EXPECT_TRUE(tail.Continues({.epoch = Epoch(2), .lsn = Lsn(11)}));
  EXPECT_FALSE(tail.Continues({.epoch = Epoch(2), .lsn = Lsn(12)})) << "a log that went another way";
}

TEST(LogTailTest, GathersLaterRecordsInPieces) {
  LogTail tail({.epoch = Epoch(1), .lsn = Lsn(0)});
  for (uint64_t i = 1; i <= 5; ++i) tail.Append(Epoch(1), Bytes(i));
  absl::Cord all;
  EXPECT_EQ(tail.Gather(Lsn(0), 1 << 20, &all), 5u);
  absl::Cord one;
  EXPECT_EQ(tail.Gather(Lsn(4), 1, &one), 1u) << "one at least, however large";
  const auto records = SplitRecords(one, 1);
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(std::get<Advance>(*DecodeRecord(records->front())).min_clock, 5u);
}

TEST(LogTailTest, CountsTheBytesAfterARecord) {
  LogTail tail({.epoch = Epoch(1), .lsn = Lsn(10)});
  for (size_t size = 1; size <= 5; ++size) tail.Append(Epoch(1), absl::Cord(std::string(size, 'r')));
  EXPECT_EQ(tail.BytesAfter(Lsn(15)), 0u);
  EXPECT_EQ(tail.BytesAfter(Lsn(14)), 5u);
  EXPECT_EQ(tail.BytesAfter(Lsn(12)), 3u + 4 + 5);
  EXPECT_EQ(tail.BytesAfter(Lsn(10)), tail.bytes());
  EXPECT_EQ(tail.BytesAfter(Lsn(2)), tail.bytes()) << "what is not kept has no bytes";
  EXPECT_EQ(tail.BytesAfter(Lsn(99)), 0u);
  tail.CutTo(Lsn(13));
  EXPECT_EQ(tail.BytesAfter(Lsn(11)), 4u + 5);
}

TEST(LogTailTest, ForgetsRecordsThatNoMemberNeeds) {
  LogTail tail({.epoch = Epoch(1), .lsn = Lsn(0)});
  for (uint64_t i = 1; i <= 3; ++i) tail.Append(Epoch(i), Bytes(i));
  const uint64_t bytes = tail.bytes();
  tail.CutTo(Lsn(2));
  EXPECT_EQ(tail.base(), (LogPosition{.epoch = Epoch(2), .lsn = Lsn(2)}));
  EXPECT_LT(tail.bytes(), bytes);
  EXPECT_FALSE(tail.Continues({.epoch = Epoch(1), .lsn = Lsn(1)}));
  EXPECT_TRUE(tail.Continues(tail.base()));
  tail.CutTo(Lsn(9));
  EXPECT_EQ(tail.base(), tail.end()) << "not beyond its end";
  EXPECT_EQ(tail.bytes(), 0u);
  tail.Append(Epoch(3), Bytes(4));
  tail.Skip(Epoch(3));
  EXPECT_EQ(tail.base().lsn, Lsn(5));
  EXPECT_EQ(tail.bytes(), 0u);
}

TEST(LogTailTest, KeepsTheNewestUnneededRecords) {
  LogTail tail({.epoch = Epoch(1), .lsn = Lsn(0)});
  for (int i = 0; i < 5; ++i) tail.Append(Epoch(1), absl::Cord(std::string(10, 'r')));
  tail.CutTo(Lsn(4), /*bytes_kept=*/30);
  EXPECT_EQ(tail.base().lsn, Lsn(2));
  EXPECT_EQ(tail.bytes(), 30u);
  tail.CutTo(Lsn(4), /*bytes_kept=*/29);
  EXPECT_EQ(tail.base().lsn, Lsn(3)) << "no more than that";
  tail.CutTo(Lsn(4), /*bytes_kept=*/0);
  EXPECT_EQ(tail.base().lsn, Lsn(4)) << "what is needed stays in any case";
}

}  // namespace
}  // namespace paceline::log
