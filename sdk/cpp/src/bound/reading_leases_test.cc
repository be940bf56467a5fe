#include "sdk/cpp/src/bound/reading_leases.h"

#include "gtest/gtest.h"

namespace paceline::sdk {
namespace {

using Kind = wire::Reading::Kind;
using Verdict = ReadingLeases::Verdict;

constexpr SegmentId kSegment{2};

class ReadingLeasesTest : public ::testing::Test {
 protected:
  // What is said now, if anything is.
  std::optional<wire::Reading> Say() {
    const uint64_t at = ReadingLeases::BeatAt(now);
    auto said = leases.Say(kSegment, now, at);
    if (said.has_value()) beat = at;
    return said;
  }
  bool Hear(uint64_t number, uint64_t version, uint64_t answers = 0, uint64_t epoch = 1) {
    return leases.Take({.segment = kSegment,
                        .epoch = Epoch(epoch),
                        .number = number,
                        .version = Lsn(version),
                        .beat = answers});
  }
  Verdict Judge(uint64_t version, uint64_t epoch = 1) const {
    return leases.Judge(
        {.segment = kSegment, .served = true, .epoch = Epoch(epoch), .began = {}, .version = Lsn(version)},
        now);
  }
  void Join(uint64_t number = 3, uint64_t version = 10) {
    leases.Want(kSegment, now);
    const auto said = Say();
    ASSERT_TRUE(said.has_value());
    EXPECT_EQ(said->kind, Kind::kJoins);
    EXPECT_EQ(Judge(version), Verdict::kWaits) << "not yet";
    EXPECT_TRUE(Hear(number, version, beat));
  }

  ReadingLeases leases;
  absl::Time now = absl::UnixEpoch() + absl::Hours(9);
  uint64_t beat = 0;
};

TEST_F(ReadingLeasesTest, AClientJoinsBeforeItHandsAnythingOut) {
  EXPECT_EQ(Judge(99), Verdict::kWaits);
  EXPECT_FALSE(Say().has_value());
  Join();
  EXPECT_FALSE(Say().has_value());
  EXPECT_EQ(Judge(10), Verdict::kFit);
  EXPECT_EQ(Judge(9), Verdict::kOlder);
}

TEST_F(ReadingLeasesTest, OnlyTheAnswerToTheLastJoinCounts) {
  leases.Want(kSegment, now);
  ASSERT_TRUE(Say().has_value());
  const uint64_t first = beat;
  leases.Beat(now);
  EXPECT_FALSE(Say().has_value()) << "its answer may be under way";
  now += ReadingLeases::kJoinAgain;
  leases.Want(kSegment, now);
  leases.Beat(now);
  ASSERT_TRUE(Say().has_value());
  EXPECT_FALSE(Hear(3, 10, first));
  EXPECT_EQ(Judge(10), Verdict::kWaits);
  EXPECT_TRUE(Hear(4, 12, beat));
  EXPECT_EQ(Judge(11), Verdict::kOlder);
}

TEST_F(ReadingLeasesTest, ALeaseRunsFromTheSendingOfWhatWasAnswered) {
  Join();
  now += ReadingLeases::kLease - absl::Milliseconds(1);
  EXPECT_EQ(Judge(10), Verdict::kFit);
  leases.Want(kSegment, now);
  leases.Beat(now);
  const auto said = Say();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->kind, Kind::kReads);
  EXPECT_EQ(said->round, 3u);
  now += absl::Milliseconds(1);
  EXPECT_EQ(Judge(10), Verdict::kWaits);
  now += absl::Milliseconds(300);
  Hear(3, 10);
  EXPECT_EQ(Judge(10), Verdict::kWaits) << "that was no answer";
  EXPECT_TRUE(Hear(3, 10, beat));
  EXPECT_EQ(Judge(10), Verdict::kFit);
  now += ReadingLeases::kLease - absl::Milliseconds(301);
  EXPECT_EQ(Judge(10), Verdict::kWaits) << "0.8 s after it was sent";
}

TEST_F(ReadingLeasesTest, ARoundIsConfirmedAtOnceUnlessSomethingOlderIsHeld) {
  Join();
  EXPECT_TRUE(Hear(4, 20));
  EXPECT_EQ(Judge(19), Verdict::kOlder);
  EXPECT_EQ(Say()->round, 4u);
  leases.Hold(kSegment);
  leases.Hold(kSegment);
  EXPECT_TRUE(Hear(5, 30));
  EXPECT_FALSE(Say().has_value());
  EXPECT_EQ(Judge(20), Verdict::kFit) << "what is held";
  leases.Release(kSegment);
  EXPECT_FALSE(Say().has_value());
  leases.Release(kSegment);
  EXPECT_EQ(Say()->round, 5u);
  EXPECT_EQ(Judge(20), Verdict::kOlder);
  leases.Hold(kSegment);
  EXPECT_TRUE(Hear(6, 40));
  EXPECT_EQ(Judge(30), Verdict::kFit);
  leases.Beat(now);
  EXPECT_EQ(Say()->round, 6u) << "no longer than to the next beat";
  EXPECT_EQ(Judge(30), Verdict::kOlder);
}

TEST_F(ReadingLeasesTest, WhoWasForgottenJoinsAnew) {
  Join();
  EXPECT_FALSE(Hear(0, 0));
  EXPECT_EQ(Judge(10), Verdict::kWaits);
  now += absl::Milliseconds(5);
  const auto said = Say();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->kind, Kind::kJoins);
  EXPECT_FALSE(Hear(0, 0)) << "said before it joined";
  EXPECT_TRUE(Hear(7, 50, beat));
  EXPECT_EQ(Judge(50), Verdict::kFit);
}

TEST_F(ReadingLeasesTest, AnotherPrimaryOrEpochIsJoinedAnew) {
  Join();
  EXPECT_EQ(Judge(99, /*epoch=*/2), Verdict::kWaits) << "of an epoch that it has not joined";
  EXPECT_TRUE(Hear(4, 20, 0, /*epoch=*/2));
  EXPECT_EQ(Judge(20, 2), Verdict::kFit) << "the same primary";
  EXPECT_EQ(Judge(99, 1), Verdict::kOlder) << "may be void";
  leases.Lost(kSegment);
  EXPECT_EQ(Judge(99, 2), Verdict::kWaits);
  now += absl::Milliseconds(5);
  EXPECT_EQ(Say()->kind, Kind::kJoins);
}

TEST_F(ReadingLeasesTest, WhatIsNotReadAnyMoreIsLeft) {
  Join();
  now += ReadingLeases::kIdle;
  leases.Beat(now);
  EXPECT_EQ(Say()->kind, Kind::kReads);
  now += absl::Milliseconds(1);
  leases.Hold(kSegment);
  leases.Beat(now);
  EXPECT_EQ(Say()->kind, Kind::kReads) << "something is held";
  leases.Release(kSegment);
  leases.Beat(now);
  EXPECT_EQ(Judge(10), Verdict::kWaits) << "before it says so";
  EXPECT_EQ(Say()->kind, Kind::kNot);
  EXPECT_TRUE(leases.empty());
}

}  // namespace
}  // namespace paceline::sdk
