#include "libs/wire/packed.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::wire {
namespace {

using paceline::testing::IsOk;
using paceline::testing::IsOkAndHolds;
using paceline::testing::StatusIs;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Bytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

// The layout is what docs/wire.md promises to other languages.
TEST(PackedTest, PartVector) {
  std::string out;
  Append(PartEntry{.segment = SegmentId(5), .count = 0x0102, .epoch = Epoch(3), .number = 0x0a0b}, out);
  EXPECT_EQ(out, Bytes({5, 0, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0}));
}

TEST(PackedTest, SealVector) {
  std::string out;
  Append(Seal{.segment = SegmentId(1), .run = 63, .line = Line::kAggregated, .number = 7}, out);
  EXPECT_EQ(out, Bytes({1, 0, 0, 0, 63, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(PackedTest, CertificateVector) {
  std::string out;
  Append(Certificate{.segment = SegmentId(9),
                     .served = true,
                     .epoch = Epoch(1),
                     .began = Lsn(2),
                     .version = Lsn(3),
                     .min_clock = 4,
                     .own = 5},
         out);
  ASSERT_EQ(out.size(), kCertificateBytes);
  EXPECT_EQ(out, Bytes({9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
                        3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(PackedTest, RoundTripsExtremes) {
  const PartEntry part{.segment = SegmentId(UINT32_MAX),
                       .count = UINT32_MAX,
                       .epoch = Epoch(UINT64_MAX),
                       .number = UINT64_MAX};
  const Mark mark{.segment = SegmentId(UINT32_MAX), .line = Line::kAggregated, .number = UINT64_MAX};
  std::string parts;
  std::string marks;
  for (int i = 0; i < 3; ++i) {
    Append(part, parts);
    Append(mark, marks);
  }
  EXPECT_THAT(ParseParts(parts).value(), ElementsAre(part, part, part));
  EXPECT_THAT(ParseMarks(marks).value(), ElementsAre(mark, mark, mark));
}

TEST(PackedTest, RoundTripsReadingsAndRounds) {
  const Reading reading{
      .segment = SegmentId(7), .kind = Reading::Kind::kJoins, .round = UINT64_MAX, .wish = 5};
  const Round round{.segment = SegmentId(7),
                    .rank_plus_one = 2,
                    .waits_for = SessionId(3),
                    .epoch = Epoch(4),
                    .number = 5,
                    .version = Lsn(6),
                    .seen = 7,
                    .beat = UINT64_MAX};
  std::string readings, rounds;
  for (int i = 0; i < 2; ++i) {
    Append(reading, readings);
    Append(round, rounds);
  }
  EXPECT_EQ(readings.size(), 2 * kReadingBytes);
  EXPECT_EQ(rounds.size(), 2 * kRoundBytes);
  EXPECT_THAT(ParseReadings(readings).value(), ElementsAre(reading, reading));
  EXPECT_THAT(ParseRounds(rounds).value(), ElementsAre(round, round));
  readings[4] = 3;
  EXPECT_THAT(ParseReadings(readings), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kind 3")));
  EXPECT_THAT(ParseRounds(rounds.substr(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rounds")));
}

TEST(PackedTest, RefusesPartialEntries) {
  EXPECT_THAT(ParseParts(std::string(25, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parts: 25")));
  EXPECT_THAT(ParseCertificates(std::string(47, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("48")));
  EXPECT_THAT(ParseSegments("abc"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4-byte")));
}

TEST(PackedTest, RefusesUnknownLinesAndEmptyRuns) {
  std::string seal;
  Append(Seal{.segment = SegmentId(1), .run = 0}, seal);
  EXPECT_THAT(ParseSeals(seal), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run 0")));
  std::string many;
  for (int i = 0; i < 3; ++i) Append(Seal{.segment = SegmentId(0), .run = 65536}, many);
  EXPECT_THAT(ParseSeals(many.substr(kSealBytes)), IsOk()) << "both lines of the largest ring";
  EXPECT_THAT(ParseSeals(many), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("131072 segments")));
  std::string mark;
  Append(Mark{.segment = SegmentId(1), .line = static_cast<Line>(3)}, mark);
  EXPECT_THAT(ParseMarks(mark), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 3")));
}

}  // namespace
}  // namespace paceline::wire
