// Bounds that follow the waiting of a job's workers: who allows them, how they are agreed, who is told.
#include "services/coordinator/metadata/jobs/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/coordinator/metadata/jobs/test_job_changes.h"

namespace paceline::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using ::absl::StatusCode;

class BoundsTest : public JobChangesTest {
 protected:
  v1::Table Weights() { return cluster_.core().Status().tables(0); }
  // A session opens the weights, to read them by a bound of at most this.
  void Follow(uint64_t session, uint32_t bound_max) {
    v1::OpenTableRequest request;
    request.set_session(session);
    request.set_token(cluster_.SecretOf(session));
    request.set_name("weights");
    request.set_bound_max(bound_max);
    ASSERT_THAT(cluster_.core().OpenTable(request), IsOk());
  }
  v1::ChangeRuleRequest Bound(uint32_t bound, float lr = 1) const {
    v1::ChangeRuleRequest request = Rates(lr);
    request.set_bound(bound);
    return request;
  }
  v1::KeepAliveReply KeepAlive(uint64_t session, uint64_t clock, std::optional<uint64_t> told,
                               uint64_t seconds = 0, uint64_t staleness_s = 0, uint32_t for_rank = 0) {
    v1::KeepAliveRequest request;
    request.set_session(session);
    request.set_token(cluster_.SecretOf(session));
    request.set_clock(clock);
    if (told.has_value()) request.set_told_version(*told);
    v1::WorkerTime& time = *request.mutable_time();
    time.set_all_us(seconds * 1'000'000);
    time.mutable_blocked()->set_staleness_us(staleness_s * 1'000'000);
    v1::WorkerTime::OfTable& table = *time.add_of_tables();
    table.set_name("weights");
    table.set_staleness_us(staleness_s * 1'000'000);
    v1::WorkerTime::ForWorker& whom = *time.add_for_workers();
    whom.set_rank(for_rank);
    whom.set_staleness_us(staleness_s * 1'000'000);
    const auto reply = cluster_.core().KeepAlive(request);
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *reply : v1::KeepAliveReply();
  }
};

TEST_F(BoundsTest, TheLargestThatAWorkerAllowsIsKept) {
  EXPECT_EQ(Weights().bound_max(), 0u);
  Follow(session_, 8);
  EXPECT_EQ(Weights().bound_max(), 8u);
  Follow(cluster_.Opened("ctr"), 4);
  EXPECT_EQ(Weights().bound_max(), 8u);
  EXPECT_EQ(Weights().bound(), 0u);
  ASSERT_THAT(cluster_.core().gauges().bounds, SizeIs(1));
  EXPECT_EQ(cluster_.core().gauges().bounds[0].bound, 8u);
}

TEST_F(BoundsTest, TheFirstBoundIsNoLargerThanAWorkerAllows) {
  Follow(session_, 2);
  ASSERT_THAT(cluster_.core().gauges().bounds, SizeIs(1));
  EXPECT_EQ(cluster_.core().gauges().bounds[0].bound, 2u);
}

TEST_F(BoundsTest, ABoundIsAgreedAsRatesAre) {
  Follow(session_, 8);
  cluster_.Worker("ctr");
  AdvanceClocks(10);
  const auto changed = Done(cluster_.ChangeRule(Bound(4)));
  ASSERT_THAT(changed.status(), IsOk());
  EXPECT_EQ(changed->table().bound(), 4u);
  EXPECT_EQ(changed->table().rule_clock(), 12u);
  EXPECT_TRUE(changed->table().only_bound());
  EXPECT_EQ(cluster_.CountSegments([&](const FakeSegment& s) {
    return s.rates.at(weights_).back().bound == 4 && s.rates.at(weights_).back().lr == 1;
  }),
            8);
  AdvanceClocks(12);
  const auto rates = Done(cluster_.ChangeRule(Rates(0.5f)));
  EXPECT_EQ(rates->table().bound(), 4u) << "rates leave it as it is";
  EXPECT_FALSE(rates->table().only_bound());
  EXPECT_EQ(In(3).bound, 4u);
}

TEST_F(BoundsTest, OnlyABoundThatSomebodyFollowsAndAllowsChanges) {
  EXPECT_THAT(cluster_.ChangeRule(Bound(4)).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("no worker reads the table by a bound")));
  Follow(session_, 8);
  EXPECT_THAT(cluster_.ChangeRule(Bound(9)).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected at most 8")));
}

TEST_F(BoundsTest, WhatHasChangedIsToldOnceItIsAgreedAndUntilItIsKnown) {
  Follow(session_, 8);
  const uint64_t worker = cluster_.Worker("ctr");
  EXPECT_THAT(KeepAlive(worker, 0, 0).changed(), IsEmpty());
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto changing = cluster_.ChangeRule(Bound(4));
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(KeepAlive(worker, 0, 0).changed(), IsEmpty()) << "some segments have not logged it";
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(changing);
  ASSERT_THAT(changing.status(), IsOk());
  const v1::KeepAliveReply told = KeepAlive(worker, 0, 1);
  ASSERT_THAT(told.changed(), SizeIs(1));
  EXPECT_EQ(told.changed(0).bound(), 4u);
  EXPECT_EQ(told.catalogue_version(), 2u);
  EXPECT_THAT(KeepAlive(worker, 0, told.catalogue_version()).changed(), IsEmpty());
  EXPECT_THAT(KeepAlive(worker, 0, std::nullopt).changed(), IsEmpty()) << "of an earlier release";
  EXPECT_THAT(KeepAlive(cluster_.Opened("other"), 0, 0).changed(), IsEmpty()) << "of another job";
}

// Workers that wait for one another in turn half of their time.
TEST_F(BoundsTest, TheBoundFollowsWhatWorkersTell) {
  Follow(session_, 16);
  const uint64_t a = cluster_.Worker("ctr");
  const uint64_t b = cluster_.Worker("ctr");
  for (uint64_t second = 1; second < 40 && Weights().bound() < 16; ++second) {
    cluster_.shards().AdvanceMinClock(10 * second);
    KeepAlive(a, 10 * second, 0, 10 * second, 5 * second, 1);
    KeepAlive(b, 10 * second, 0, 10 * second, 5 * second, 0);
    cluster_.Run(absl::Seconds(1));
  }
  EXPECT_EQ(Weights().bound(), 16u);
  EXPECT_EQ(cluster_.core().gauges().bounds[0].bound, 16u);
}

TEST_F(BoundsTest, AChangeOfRatesToComeIsNotReplaced) {
  Follow(session_, 16);
  const uint64_t a = cluster_.Worker("ctr");
  const uint64_t b = cluster_.Worker("ctr");
  ASSERT_THAT(Done(cluster_.ChangeRule(At(Rates(0.5f), 1000))).status(), IsOk());
  for (uint64_t second = 1; second < 20; ++second) {
    cluster_.shards().AdvanceMinClock(10 * second);
    KeepAlive(a, 10 * second, 0, 10 * second, 5 * second, 1);
    KeepAlive(b, 10 * second, 0, 10 * second, 5 * second, 0);
    cluster_.Run(absl::Seconds(1));
  }
  EXPECT_EQ(Weights().rule_clock(), 1000u);
  EXPECT_EQ(Weights().bound(), 0u);
}

}  // namespace
}  // namespace paceline::coordinator
