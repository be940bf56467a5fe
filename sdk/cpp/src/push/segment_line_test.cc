#include "sdk/cpp/src/push/segment_line.h"

#include <gtest/gtest.h>

namespace paceline::sdk {
namespace {

Part At(Clock clock, uint32_t priority = 0) {
  Part part;
  part.clock = clock;
  part.priority = priority;
  return part;
}

struct LineTest : ::testing::Test {
  SegmentLine line{SegmentId(3), Line::kArrival};

  std::vector<PartNumber> Commit(PartNumber upto) {
    std::vector<PartNumber> numbers;
    line.Commit(upto, [&](const Part& part) { numbers.push_back(part.number); });
    return numbers;
  }
};

TEST_F(LineTest, NumbersCountFromOne) {
  EXPECT_EQ(line.last(), 0u);
  for (int i = 0; i < 3; ++i) line.Append(At(0));
  EXPECT_EQ(line.last(), 3u);
  EXPECT_EQ(line.Next().number, 1u);
}

TEST_F(LineTest, CommittedPartsGoAndOthersStay) {
  for (int i = 0; i < 4; ++i) line.Append(At(0));
  for (uint64_t frame = 1; frame <= 3; ++frame) line.Sent(frame);
  EXPECT_EQ(Commit(2), (std::vector<PartNumber>{1, 2}));
  EXPECT_TRUE(Commit(1).empty());  // late
  EXPECT_EQ(line.committed(), 2u);
  EXPECT_EQ(line.Next().number, 4u);
  EXPECT_EQ(line.Find(2), nullptr);
  EXPECT_EQ(line.Find(3)->frame, 3u);
  EXPECT_EQ(line.Find(5), nullptr);
}

TEST_F(LineTest, RewindingMakesSentPartsWaitAgain) {
  for (int i = 0; i < 4; ++i) line.Append(At(0));
  for (uint64_t frame = 1; frame <= 4; ++frame) line.Sent(frame);
  EXPECT_FALSE(line.HasWaiting());
  EXPECT_EQ(line.Rewind(3), 2u);
  EXPECT_EQ(line.Next().number, 3u);
  EXPECT_EQ(line.Find(3)->frame, 0u);
  EXPECT_EQ(line.Find(2)->frame, 2u);
  EXPECT_EQ(line.Rewind(4), 0u);  // waits already
  EXPECT_EQ(line.RewindAll(), 2u);
  EXPECT_EQ(line.Next().number, 1u);
  // Committed through another stream while it waits.
  Commit(3);
  EXPECT_EQ(line.Next().number, 4u);
}

TEST_F(LineTest, PartsBeforeAnUrgentPartAreUrgent) {
  line.Append(At(0, 1));
  line.Append(At(0, 0));
  line.Append(At(0, 5));
  line.Append(At(0, 2));
  EXPECT_EQ(line.Next().urgency, 5u);
  line.Sent(1);
  line.Sent(2);
  line.Sent(3);
  EXPECT_EQ(line.Next().urgency, 2u);
  line.RewindAll();
  EXPECT_EQ(line.Next().urgency, 5u);
}

TEST_F(LineTest, SealsAnswerForEveryClockStillAsked) {
  EXPECT_EQ(line.SealedAt(5), 0u);
  line.Append(At(3));
  line.Append(At(3));
  line.Append(At(5));
  line.Append(At(8));
  EXPECT_EQ(line.SealedAt(3), 0u);
  EXPECT_EQ(line.SealedAt(4), 2u);
  EXPECT_EQ(line.SealedAt(5), 2u);
  EXPECT_EQ(line.SealedAt(6), 3u);
  EXPECT_EQ(line.SealedAt(9), 4u);
  line.ForgetSeals(6);
  EXPECT_EQ(line.SealedAt(6), 3u);
  EXPECT_EQ(line.SealedAt(9), 4u);
  Commit(4);
  line.ForgetSeals(100);
  EXPECT_EQ(line.SealedAt(100), 4u);
}

}  // namespace
}  // namespace paceline::sdk
