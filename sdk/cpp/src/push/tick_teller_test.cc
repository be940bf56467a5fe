#include "sdk/cpp/src/push/tick_teller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libs/wire/packed.h"

namespace paceline::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct TickTellerTest : ::testing::Test {
  TickTellerTest() { teller.SetSegments(Ids({1, 2, 3, 7})); }

  static std::vector<SegmentId> Ids(std::vector<uint32_t> numbers) {
    std::vector<SegmentId> ids;
    for (uint32_t n : numbers) ids.emplace_back(n);
    return ids;
  }
  // The segments the tick names on the arrival line, runs resolved, with their numbers.
  std::map<uint32_t, PartNumber> Tell(Clock clock) {
    const v1::Tick tick = teller.Tell(
        clock, [this](SegmentId s, Line line, Clock) { return line == Line::kArrival ? made[s.v] : 0; });
    EXPECT_EQ(tick.clock(), clock);
    anew = tick.anew();
    seals = wire::ParseSeals(tick.seals()).value();
    std::map<uint32_t, PartNumber> named;
    for (const wire::Seal& seal : seals) {
      for (uint32_t i = 0; i < seal.run; ++i) {
        if (seal.line == Line::kArrival) named[seal.segment.v + i] = seal.number;
      }
    }
    return named;
  }

  TickTeller teller;
  std::map<uint32_t, PartNumber> made;
  std::vector<wire::Seal> seals;
  bool anew = false;
};

TEST_F(TickTellerTest, TheFirstTickNamesAllAndRunsAreOneSeal) {
  made[7] = 4;
  EXPECT_TRUE(teller.Due(1));
  EXPECT_EQ(Tell(1), (std::map<uint32_t, PartNumber>{{1, 0}, {2, 0}, {3, 0}, {7, 4}}));
  EXPECT_THAT(seals, ElementsAre(wire::Seal{SegmentId(1), 3, Line::kArrival, 0},
                                 wire::Seal{SegmentId(7), 1, Line::kArrival, 4},
                                 wire::Seal{SegmentId(1), 3, Line::kAggregated, 0},
                                 wire::Seal{SegmentId(7), 1, Line::kAggregated, 0}));
  EXPECT_FALSE(teller.Due(1));
}

TEST_F(TickTellerTest, LaterTicksNameChangedSegments) {
  Tell(1);
  made[2] = 1;
  EXPECT_EQ(Tell(2), (std::map<uint32_t, PartNumber>{{2, 1}}));
  EXPECT_THAT(Tell(3), IsEmpty());
}

TEST_F(TickTellerTest, ANewStreamIsToldAll) {
  Tell(1);
  teller.NewStream();
  EXPECT_TRUE(teller.Due(1));
  EXPECT_EQ(Tell(1).size(), 4u);
}

TEST_F(TickTellerTest, NewSegmentsAreNamedEvenAtTheSameClock) {
  Tell(1);
  teller.SetSegments(Ids({1, 2, 3, 5, 7}));
  EXPECT_TRUE(teller.Due(1));
  EXPECT_EQ(Tell(1), (std::map<uint32_t, PartNumber>{{5, 0}}));
  teller.Forget(SegmentId(2));
  EXPECT_TRUE(teller.Due(1));
  EXPECT_EQ(Tell(1), (std::map<uint32_t, PartNumber>{{2, 0}}));
}

// A tick that names the segment may still be under way when the shard gets it back: that the next one leaves
// it out must not pass for "unchanged".
TEST_F(TickTellerTest, AfterASegmentHasGoneTheNextTickNamesAll) {
  Tell(1);
  EXPECT_FALSE(anew);
  teller.SetSegments(Ids({1, 3, 7}));
  EXPECT_FALSE(teller.Due(1)) << "the next clock will do";
  EXPECT_EQ(Tell(2), (std::map<uint32_t, PartNumber>{{1, 0}, {3, 0}, {7, 0}}));
  EXPECT_TRUE(anew);
  EXPECT_THAT(Tell(3), IsEmpty());
  EXPECT_FALSE(anew);
}

TEST_F(TickTellerTest, SegmentsThatWereNeverNamedMayGo) {
  teller.SetSegments(Ids({1, 2, 3}));
  Tell(1);
  EXPECT_FALSE(anew);
  teller.SetSegments(Ids({1, 2}));
  teller.NewStream();
  Tell(1);
  EXPECT_FALSE(anew) << "the stream has heard nothing yet";
}

// A segment that has to be named again was heard of all the same.
TEST_F(TickTellerTest, ForgottenSegmentsThatGoAreVoidToo) {
  Tell(1);
  teller.Forget(SegmentId(2));
  teller.SetSegments(Ids({1, 3, 7}));
  EXPECT_EQ(Tell(2).size(), 3u);
  EXPECT_TRUE(anew);
  teller.ForgetAll();
  teller.SetSegments(Ids({1, 3}));
  EXPECT_EQ(Tell(3).size(), 2u);
  EXPECT_TRUE(anew);
}

// Asked for by the shard, whose map is newer.
TEST_F(TickTellerTest, SegmentsNamedOnRequestGoTheSameWay) {
  Tell(1);
  teller.OnAck(1, Ids({9}));
  EXPECT_EQ(Tell(1), (std::map<uint32_t, PartNumber>{{9, 0}}));
  teller.SetSegments(Ids({1, 2, 3, 7}));
  EXPECT_EQ(Tell(2).size(), 4u);
  EXPECT_TRUE(anew);
}

TEST_F(TickTellerTest, UnspokenSegmentsAreNamedOnceMoreAndThenOnlyAfterAPause) {
  Tell(4);
  EXPECT_TRUE(teller.Unanswered());
  EXPECT_TRUE(teller.OnAck(4, Ids({3, 9})));
  EXPECT_EQ(Tell(4), (std::map<uint32_t, PartNumber>{{3, 0}, {9, 0}}));
  EXPECT_FALSE(teller.OnAck(4, Ids({9})));
  EXPECT_TRUE(teller.Unanswered());
  EXPECT_FALSE(teller.Due(4));
  teller.ForgetAll();
  EXPECT_TRUE(teller.Due(4));
  EXPECT_EQ(Tell(4).size(), 5u);
  EXPECT_TRUE(anew) << "the one before may have said so, and not have been heard";
  teller.OnAck(4, {});
  EXPECT_FALSE(teller.Unanswered());
}

TEST_F(TickTellerTest, AnswersToEarlierTicksAreVoid) {
  Tell(1);
  Tell(2);
  EXPECT_FALSE(teller.OnAck(1, Ids({3})));
  EXPECT_FALSE(teller.Due(2));
}

}  // namespace
}  // namespace paceline::sdk
