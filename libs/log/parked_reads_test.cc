#include "libs/log/parked_reads.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr SessionId kWorker{7};

class Told : public ReadSink {
 public:
  void Served(size_t, const wire::Certificate&, const Wait&) override {}
  void Refused(size_t, v1::Refusal refusal) override { refusals.push_back(std::move(refusal)); }
  bool cancelled() const override { return gone; }
  std::vector<v1::Refusal> refusals;
  bool gone = false;
};

class ParkedReadsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Told> Park(size_t part, absl::Duration deadline = absl::Minutes(1), PartNumber own = 0) {
    auto told = std::make_shared<Told>();
    Read read;
    read.session = kWorker;
    read.table = SumTable(JobId(1));
    read.own = own;
    read.deadline = start + deadline;
    read.part = part;
    read.sink = told;
    parked.Park(std::move(read), start, {.cause = Wait::Cause::kStaleness, .duration = {}, .for_whom = "b"});
    return told;
  }
  void OnTime(absl::Duration after) {
    parked.OnTime(start + after, segment, [](const Read&) {
      return Wait{.cause = Wait::Cause::kStaleness, .duration = {}, .for_whom = "worker 1", .for_rank = 1};
    });
  }
  // Wakes the reads; those of these parts are answered. Returns all that were asked about.
  std::vector<size_t> Wake(const std::vector<size_t>& ready) {
    std::vector<size_t> asked;
    parked.Wake(start + absl::Seconds(2), [&](const Read& read, const Wait& wait) {
      EXPECT_EQ(wait.duration, absl::Seconds(2));
      EXPECT_EQ(wait.for_whom, "b");
      asked.push_back(read.part);
      return std::ranges::count(ready, read.part) > 0;
    });
    return asked;
  }

  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  Segment segment = SegmentWith(JobId(1), {kWorker});
  ParkedReads parked;
};

TEST_F(ParkedReadsTest, WakesInTheOrderOfArrival) {
  for (size_t part = 0; part < 4; ++part) Park(part);
  EXPECT_THAT(Wake({1, 2}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Wake({0, 3}), ElementsAre(0, 3));
  EXPECT_EQ(parked.size(), 0u);
}

TEST_F(ParkedReadsTest, CancelledReadsAreForgotten) {
  const auto told = Park(0);
  Park(1);
  told->gone = true;
  EXPECT_THAT(Wake({}), ElementsAre(1));
  EXPECT_THAT(told->refusals, IsEmpty());
  EXPECT_EQ(parked.size(), 1u);
}

TEST_F(ParkedReadsTest, CancelledReadsMakeRoomAtTheLimit) {
  const auto told = Park(0);
  for (size_t part = 1; part < ParkedReads::kMax; ++part) Park(part);
  EXPECT_FALSE(parked.HasRoom());
  told->gone = true;
  EXPECT_TRUE(parked.HasRoom());
}

TEST_F(ParkedReadsTest, AReadIsRefusedAtItsDeadline) {
  const auto soon = Park(0, absl::Seconds(3));
  const auto later = Park(1, absl::Seconds(5));
  OnTime(absl::Seconds(3) - absl::Nanoseconds(1));
  EXPECT_THAT(soon->refusals, IsEmpty());
  OnTime(absl::Seconds(3));
  ASSERT_THAT(soon->refusals, SizeIs(1));
  EXPECT_EQ(soon->refusals[0].reason(), v1::Refusal::DEADLINE);
  EXPECT_THAT(soon->refusals[0].message(), HasSubstr("waited 3s"));
  EXPECT_THAT(soon->refusals[0].message(), HasSubstr("it waits for worker 1"));
  EXPECT_EQ(soon->refusals[0].waits_for_rank_plus_one(), 2u);
  EXPECT_THAT(later->refusals, IsEmpty());
  OnTime(absl::Seconds(5));
  EXPECT_THAT(later->refusals, SizeIs(1));
}

TEST_F(ParkedReadsTest, AMissingOwnPartIsWaitedForAShortTimeOnly) {
  const auto told = Park(0, absl::Minutes(1), /*own=*/2);
  OnTime(ParkedReads::kOwnPartMax - absl::Nanoseconds(1));
  EXPECT_THAT(told->refusals, IsEmpty());
  segment.Apply(MakeUpdate(kWorker, 1, {{5, 1.0f}}));
  OnTime(ParkedReads::kOwnPartMax);
  ASSERT_THAT(told->refusals, SizeIs(1));
  EXPECT_EQ(told->refusals[0].number(), 2u);
  EXPECT_EQ(told->refusals[0].expected(), 2u);
}

TEST_F(ParkedReadsTest, RefusesReadsOfDroppedTables) {
  const auto told = Park(0);
  parked.RefuseDropped(segment);
  EXPECT_THAT(told->refusals, IsEmpty());
  segment.Apply(DropTable{.table = kSumTable});
  parked.RefuseDropped(segment);
  ASSERT_THAT(told->refusals, SizeIs(1));
  EXPECT_EQ(told->refusals[0].reason(), v1::Refusal::INVALID);
}

TEST_F(ParkedReadsTest, RefusesEveryRead) {
  const std::vector<std::shared_ptr<Told>> all = {Park(0), Park(1)};
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::UNAVAILABLE);
  parked.RefuseAll(refusal);
  for (const auto& told : all) EXPECT_THAT(told->refusals, SizeIs(1));
  EXPECT_EQ(parked.size(), 0u);
}

}  // namespace
}  // namespace paceline::log
