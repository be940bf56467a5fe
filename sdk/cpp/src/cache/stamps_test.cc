#include "sdk/cpp/src/cache/stamps.h"

#include <gtest/gtest.h>

namespace paceline::sdk {
namespace {

wire::Certificate At(uint64_t version) {
  wire::Certificate certificate;
  certificate.segment = SegmentId(3);
  certificate.epoch = Epoch(2);
  certificate.version = Lsn(version);
  certificate.min_clock = 7;
  certificate.own = 5;
  return certificate;
}

TEST(StampsTest, AStampSaysWhatItsRowsAreAsOf) {
  Stamps stamps;
  const uint32_t stamp = stamps.Make(At(10));
  ASSERT_NE(stamp, Stamps::kNone);
  EXPECT_EQ(stamps[stamp].segment, SegmentId(3));
  EXPECT_EQ(stamps[stamp].epoch, Epoch(2));
  EXPECT_EQ(stamps[stamp].version, Lsn(10));
  EXPECT_EQ(stamps[stamp].min_clock, 7u);
  EXPECT_EQ(stamps.judged(stamp).min_clock, 7u);
  EXPECT_EQ(stamps[stamp].own, 5u);
  EXPECT_EQ(stamps[Stamps::kNone].epoch, Epoch(0));
}

TEST(StampsTest, AStampStaysWhileSomebodyHoldsIt) {
  Stamps stamps;
  const uint32_t stamp = stamps.Make(At(10));
  stamps.Hold(stamp);
  stamps.Release(stamp);
  EXPECT_NE(stamps.Make(At(11)), stamp);
  EXPECT_EQ(stamps[stamp].version, Lsn(10));
}

TEST(StampsTest, NumbersAreUsedAgainAndNothingIsNotedOfNewOnes) {
  Stamps stamps;
  const uint32_t stamp = stamps.Make(At(10));
  stamps.NoteGood(stamp, stamps.NewJudging());
  EXPECT_NE(stamps.judged(stamp).good_in, 0u);
  stamps.Release(stamp);
  ASSERT_EQ(stamps.Make(At(11)), stamp);
  EXPECT_EQ(stamps.judged(stamp).good_in, 0u);
  EXPECT_EQ(stamps[stamp].version, Lsn(11));
}

TEST(StampsTest, OnlyThoseThatAreHeldTakeBytes) {
  Stamps stamps;
  EXPECT_EQ(stamps.bytes(), 0u);
  const uint32_t first = stamps.Make(At(1));
  const uint32_t second = stamps.Make(At(2));
  EXPECT_EQ(stamps.bytes(), 2 * Stamps::kBytes);
  stamps.Release(first);
  stamps.Release(Stamps::kNone);
  EXPECT_EQ(stamps.bytes(), Stamps::kBytes);
  stamps.Release(second);
  EXPECT_EQ(stamps.bytes(), 0u);
}

}  // namespace
}  // namespace paceline::sdk
