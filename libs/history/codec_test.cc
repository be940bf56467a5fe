#include "libs/history/codec.h"

#include <set>

#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/base/varint.h"
#include "libs/history/test_util/random_events.h"

namespace paceline::history {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

std::string Encoded(const Event& event) {
  std::string out;
  Append(event, out);
  return out;
}

TEST(CodecTest, AnEventIsItsKindItsLengthAndItsFields) {
  const Event pushed = Pushed{.segment = SegmentId(5),
                              .line = Line::kAggregated,
                              .number = 300,
                              .clock = 7,
                              .table = TableId(2),
                              .count = 1,
                              .content = 0};
  EXPECT_EQ(Encoded(pushed), std::string("\x12\x08\x05\x02\xac\x02\x07\x02\x01\x00", 10));
  EXPECT_EQ(Encoded(End{}), std::string("\x02\x00", 2));
}

TEST(CodecTest, EveryKindHasANumberOfItsOwn) {
  world::SplitMix64 random(1);
  std::set<uint64_t> kinds;
  for (size_t i = 0; i < std::variant_size_v<Event>; ++i) {
    const std::string bytes = Encoded(testing::RandomEventOf(i, random));
    std::string_view in = bytes;
    kinds.insert(TakeVarint(in).value());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Event>);
}

TEST(CodecTest, ReadsBackAnyEvents) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    world::SplitMix64 random(seed);
    std::vector<Event> events;
    std::string bytes;
    for (int i = 0; i < 100; ++i) {
      events.push_back(testing::RandomEvent(random));
      Append(events.back(), bytes);
    }
    std::string_view in = bytes;
    for (const Event& event : events) {
      const auto read = TakeEvent(in);
      ASSERT_THAT(read, IsOk());
      ASSERT_TRUE(read->has_value());
      ASSERT_TRUE(**read == event);
    }
    EXPECT_TRUE(in.empty());
  }
}

TEST(CodecTest, AnEventThatIsCutOffIsRefusedWhereverThatIs) {
  world::SplitMix64 random(3);
  for (size_t i = 0; i < std::variant_size_v<Event>; ++i) {
    const std::string bytes = Encoded(testing::RandomEventOf(i, random));
    for (size_t n = 0; n < bytes.size(); ++n) {
      std::string_view in = std::string_view(bytes).substr(0, n);
      EXPECT_THAT(TakeEvent(in), StatusIs(absl::StatusCode::kInvalidArgument)) << i << " cut at " << n;
      EXPECT_EQ(in.size(), n);
    }
  }
}

TEST(CodecTest, SkipsKindsOfALaterVersion) {
  std::string bytes(
      "\xe7\x07\x03"
      "abc",
      6);
  Append(Ticked{.clock = 4}, bytes);
  std::string_view in = bytes;
  auto unknown = TakeEvent(in);
  ASSERT_THAT(unknown, IsOk());
  EXPECT_FALSE(unknown->has_value());
  auto known = TakeEvent(in);
  ASSERT_THAT(known, IsOk());
  EXPECT_TRUE(**known == Event(Ticked{.clock = 4}));
}

TEST(CodecTest, FieldsThatAnOlderFileDoesNotHaveAreTheirDefault) {
  const std::string bytes("\x12\x02\x05\x01", 4);
  std::string_view in = bytes;
  const auto event = TakeEvent(in);
  ASSERT_THAT(event, IsOk());
  EXPECT_TRUE(**event == Event(Pushed{.segment = SegmentId(5), .line = Line::kArrival}));
}

TEST(CodecTest, FieldsThatALaterFileHasMoreAreIgnored) {
  const std::string bytes("\x19\x02\x05\x01", 4);
  std::string_view in = bytes;
  const auto event = TakeEvent(in);
  ASSERT_THAT(event, IsOk());
  EXPECT_TRUE(**event == Event(Ticked{.clock = 5}));
}

TEST(CodecTest, RefusesNumbersThatDoNotFitTheirField) {
  const std::string segment("\x12\x05\xff\xff\xff\xff\x7f", 7);  // of 32 bits
  std::string_view in = segment;
  EXPECT_THAT(TakeEvent(in), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 4294967295")));
  const std::string flag("\x1a\x01\x02", 3);
  in = flag;
  EXPECT_THAT(TakeEvent(in), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1")));
}

TEST(CodecTest, LongTextsAreCutOff) {
  const std::string bytes = Encoded(Failed{.code = 1, .why = std::string(5000, 'x')});
  std::string_view in = bytes;
  const auto event = TakeEvent(in);
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(std::get<Failed>(**event).why, std::string(kTextBytesMax, 'x'));
}

}  // namespace
}  // namespace paceline::history
