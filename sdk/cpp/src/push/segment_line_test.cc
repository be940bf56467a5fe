#include "sdk/cpp/src/push/segment_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "libs/world/random.h"

namespace paceline::sdk {
namespace {

Part At(Clock clock, uint32_t priority = 0) {
  Part part;
  part.clock = clock;
  part.priority = priority;
  return part;
}

Part Late(uint32_t priority, uint64_t push, TableId table = TableId(1)) {
  Part part = At(0, priority);
  part.late = true;
  part.push = push;
  part.table = table;
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
  line.Append(At(0, 4));
  line.Append(At(0, 5));
  line.Append(At(0, 0));
  line.Append(At(0, 3));
  EXPECT_EQ(line.Next().urgency, 0u);
  line.Sent(1);
  line.Sent(2);
  line.Sent(3);
  EXPECT_EQ(line.Next().urgency, 3u);
  line.RewindAll();
  EXPECT_EQ(line.Next().urgency, 0u);
}

TEST_F(LineTest, ALatePartGetsItsNumberAsTheMostUrgentOfThoseThatWait) {
  line.Append(Late(5, 1));
  line.Append(Late(2, 2));
  line.Append(Late(2, 3));
  EXPECT_EQ(line.last(), 0u);
  EXPECT_EQ(line.Next().number, 0u);
  EXPECT_EQ(line.NumberFirst().push, 2u);
  EXPECT_EQ(line.Next().number, 1u);
  line.Append(At(0));  // at once: nothing overtakes it
  EXPECT_EQ(line.last(), 2u);
  line.Append(Late(1, 4));
  EXPECT_EQ(line.Next().urgency, 0u);
  line.Sent(1);
  line.Sent(1);
  EXPECT_EQ(line.Next().push, 4u);
}

TEST_F(LineTest, AReadAsksForTheLastPartOfItsTableOnceThatHasANumber) {
  EXPECT_EQ(line.LastOf(TableId(1), 9), 0u);
  line.Append(Late(5, 1, TableId(1)));
  line.Append(Late(2, 2, TableId(2)));
  EXPECT_EQ(line.LastOf(TableId(1), 1), std::nullopt);
  EXPECT_EQ(line.LastOf(TableId(1), 0), 0u) << "made before that push";
  line.NumberFirst();
  EXPECT_EQ(line.LastOf(TableId(2), 2), 1u);
  EXPECT_EQ(line.LastOf(TableId(1), 2), std::nullopt);
  line.NumberFirst();
  EXPECT_EQ(line.LastOf(TableId(1), 2), 2u);
  EXPECT_EQ(line.LastOf(TableId(2), 2), 1u) << "whatever other tables have behind it";
  Commit(2);
  EXPECT_EQ(line.LastOf(TableId(1), 2), 2u);
}

// The line beside a plain list of parts.
class ListOfParts {
 public:
  struct Listed {
    uint64_t push = 0;
    uint32_t priority = 0;
    PartNumber number = 0;
    bool sent = false;
  };

  void Add(uint64_t push, uint32_t priority, bool late) {
    parts_.push_back({.push = push, .priority = priority, .number = late ? 0 : ++last_});
  }
  bool HasLate() const { return FirstLate() != nullptr; }
  void NumberFirst() { FirstLate()->number = ++last_; }
  // That of the smallest number that waits; else the late one that goes first.
  const Listed* Next() const {
    const Listed* next = nullptr;
    for (const Listed& part : parts_) {
      if (part.number == 0 || part.sent) continue;
      if (next == nullptr || part.number < next->number) next = &part;
    }
    return next != nullptr ? next : FirstLate();
  }
  void Sent(PartNumber number) {
    for (Listed& part : parts_) part.sent = part.sent || part.number == number;
  }
  void Rewind(PartNumber from) {
    for (Listed& part : parts_) part.sent = part.sent && part.number < from;
  }
  void Commit(PartNumber upto) {
    std::erase_if(parts_, [upto](const Listed& part) { return part.number != 0 && part.number <= upto; });
  }
  // Of the parts that wait.
  uint32_t Urgency() const {
    uint32_t urgency = UINT32_MAX;
    for (const Listed& part : parts_) {
      if (!part.sent) urgency = std::min(urgency, part.priority);
    }
    return urgency;
  }
  PartNumber last() const { return last_; }

 private:
  const Listed* FirstLate() const {
    const Listed* first = nullptr;
    for (const Listed& part : parts_) {
      if (part.number == 0 && (first == nullptr || part.priority < first->priority)) first = &part;
    }
    return first;
  }
  Listed* FirstLate() { return const_cast<Listed*>(std::as_const(*this).FirstLate()); }

  std::vector<Listed> parts_;  // in the order of the pushes
  PartNumber last_ = 0;
};

TEST_F(LineTest, PartsGoAsInAPlainList) {
  world::SplitMix64 random(3);
  ListOfParts list;
  for (uint64_t step = 1; step <= 20'000; ++step) {
    const uint64_t what = world::Uniform(random, 10);
    if (what < 4) {
      const auto priority = static_cast<uint32_t>(world::Uniform(random, 4));
      line.Append(priority > 0 ? Late(priority, step) : At(0));
      list.Add(priority > 0 ? step : 0, priority, priority > 0);
    } else if (what < 8 && line.HasWaiting()) {
      if (line.Next().number == 0) {
        line.NumberFirst();
        list.NumberFirst();
      }
      list.Sent(line.Next().number);
      line.Sent(step);
    } else if (what == 8) {
      const PartNumber from = world::Uniform(random, line.last() + 2);
      line.Rewind(from);
      list.Rewind(from);
    } else if (what == 9 && world::Chance(random, 0.2)) {
      while (line.HasLate()) {  // as at a tick
        line.NumberFirst();
        list.NumberFirst();
      }
    } else {
      const PartNumber upto = line.committed() + world::Uniform(random, line.last() - line.committed() + 1);
      Commit(upto);
      list.Commit(upto);
    }
    ASSERT_EQ(line.last(), list.last());
    ASSERT_EQ(line.HasLate(), list.HasLate());
    const ListOfParts::Listed* next = list.Next();
    ASSERT_EQ(line.HasWaiting(), next != nullptr);
    if (next == nullptr) continue;
    ASSERT_EQ(line.Next().push, next->push);
    ASSERT_EQ(line.Next().number, next->number);
    ASSERT_EQ(line.Next().urgency, list.Urgency());
  }
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
