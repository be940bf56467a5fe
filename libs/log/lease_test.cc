#include "libs/log/lease.h"

#include <gtest/gtest.h>

#include "libs/log/follower.h"

namespace paceline::log {
namespace {

constexpr absl::Duration kMs = absl::Milliseconds(1);

TEST(LeaseTest, AReplicaIsMorePatientThanAPrimaryIsBold) {
  for (const absl::Duration lease : {kLease, kLeaseMax}) {
    // The replica's clock faster than the primary's, as far as it may, with time to spare in proportion.
    EXPECT_GT(Patience(lease) / (1 + kDrift), lease);
    EXPECT_EQ(Patience(lease), 1.1 * lease + 100 * kMs);
  }
}

TEST(LeaseTest, TimeIsLentFromWhenTheBeaconLeft) {
  const absl::Time start = absl::UnixEpoch();
  LentTime lent;
  EXPECT_EQ(lent.until(), absl::InfinitePast());
  lent.Sent(1, start, 400 * kMs);
  lent.Sent(2, start + 100 * kMs, 400 * kMs);
  EXPECT_EQ(lent.Answered(1, start + 250 * kMs), 250 * kMs);
  EXPECT_EQ(lent.until(), start + 400 * kMs) << "not from when the answer came";
  EXPECT_EQ(lent.Answered(2, start + 260 * kMs), 160 * kMs);
  EXPECT_EQ(lent.until(), start + 500 * kMs);
  EXPECT_EQ(lent.Answered(2, start + 270 * kMs), std::nullopt) << "answered already";
  EXPECT_EQ(lent.Answered(7, start + 270 * kMs), std::nullopt) << "never sent";
  EXPECT_EQ(lent.until(), start + 500 * kMs);
}

TEST(LeaseTest, BeatsAreAtMultiplesOfTheTimeBetweenTwoBeacons) {
  EXPECT_EQ(kBeat, kLease / kBeaconsALease);
  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_EQ(NextBeat(start), start + kBeat);
  EXPECT_EQ(NextBeat(start + kMs), start + kBeat);
  EXPECT_EQ(NextBeat(start + kBeat - absl::Nanoseconds(1)), start + kBeat);
  EXPECT_EQ(NextBeat(absl::UnixEpoch() - kMs), absl::UnixEpoch()) << "a clock may begin anywhere";
}

TEST(LeaseTest, AnAnswerMakesUpForTheBeaconsBeforeIt) {
  LentTime lent;
  const absl::Time start = absl::UnixEpoch();
  for (uint64_t n = 1; n <= 5; ++n) lent.Sent(n, start + n * 100 * kMs, 400 * kMs);
  EXPECT_TRUE(lent.Answered(4, start + 600 * kMs).has_value());
  EXPECT_EQ(lent.until(), start + 800 * kMs);
  EXPECT_EQ(lent.Answered(3, start + 610 * kMs), std::nullopt) << "late, and of no use";
}

TEST(LeaseTest, SlowAnswersMakeForLongerLeasesAtOnce) {
  const absl::Time start = absl::UnixEpoch();
  LeaseLength length;
  EXPECT_EQ(length.length(), kLease);
  length.Observed(300 * kMs, start);
  EXPECT_EQ(length.length(), 900 * kMs);
  length.Observed(absl::Seconds(60), start);
  EXPECT_EQ(length.length(), kLeaseMax);
}

TEST(LeaseTest, AHiccupIsRememberedForTenSecondsAndForgottenAfterTwenty) {
  for (const absl::Duration at : {0 * kMs, 5000 * kMs, 9999 * kMs}) {  // within a window
    const absl::Time start = absl::UnixEpoch();
    LeaseLength length;
    length.Observed(kMs, start);
    length.Observed(300 * kMs, start + at);
    for (absl::Duration since = 100 * kMs; since <= absl::Seconds(21); since += 100 * kMs) {
      length.Observed(kMs, start + at + since);
      if (since < absl::Seconds(10)) {
        EXPECT_EQ(length.length(), 900 * kMs) << at << " + " << since;
      }
      if (since > absl::Seconds(20)) {
        EXPECT_EQ(length.length(), kLease) << at << " + " << since;
      }
    }
  }
}

TEST(LeaseTest, AfterAPauseWithoutAnswersTheOldOnesDoNotCount) {
  LeaseLength length;
  length.Observed(300 * kMs, absl::UnixEpoch());
  length.Observed(kMs, absl::UnixEpoch() + absl::Seconds(30));
  EXPECT_EQ(length.length(), kLease);
}

TEST(WatchTest, TheLongestLoanCounts) {
  const absl::Time start = absl::UnixEpoch();
  PrimaryWatch watch;
  watch.Begin(Epoch(1), start);
  EXPECT_FALSE(watch.Silent(start + kLease));
  EXPECT_TRUE(watch.Silent(start + Patience(kLease)));
  watch.Heard(kLeaseMax, start + kLease);
  watch.Heard(kLease, start + 2 * kLease);
  EXPECT_FALSE(watch.Silent(start + kLease + kLeaseMax));
  EXPECT_TRUE(watch.Silent(start + kLease + Patience(kLeaseMax)));
}

TEST(WatchTest, AnotherEpochDoesNotEndALoan) {
  const absl::Time start = absl::UnixEpoch();
  PrimaryWatch watch;
  watch.Begin(Epoch(1), start);
  watch.Heard(kLeaseMax, start);
  watch.Begin(Epoch(2), start + kLease);
  EXPECT_FALSE(watch.Silent(start + kLeaseMax)) << "its primary may still count on it";
  EXPECT_TRUE(watch.Silent(start + Patience(kLeaseMax)));
}

TEST(WatchTest, AFollowerThatStoodStillListensAnew) {
  const absl::Time start = absl::UnixEpoch();
  PrimaryWatch watch;
  watch.Begin(Epoch(1), start);
  watch.ListenAfresh(start + absl::Seconds(5));
  EXPECT_FALSE(watch.Silent(start + absl::Seconds(5) + kLease));
  EXPECT_TRUE(watch.Silent(start + absl::Seconds(5) + Patience(kLease)));
}

TEST(LeaseTest, ASlowReplicaIsBorneLongerThanOneThatIsGone) {
  EXPECT_EQ(SilenceBorne(kLease, /*link_broke=*/true), kLease + 50 * kMs);
  EXPECT_EQ(SilenceBorne(kLease, /*link_broke=*/false), 900 * kMs);
  EXPECT_EQ(SilenceBorne(absl::Seconds(2), /*link_broke=*/false), 2050 * kMs)
      << "no less than a lease: until then it need not have answered";
}

}  // namespace
}  // namespace paceline::log
