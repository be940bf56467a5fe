#include "sdk/cpp/src/session/time_account.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::sdk {
namespace {

using ::testing::DoubleNear;
using ::testing::SizeIs;

constexpr absl::Time kBegin = absl::UnixEpoch();
constexpr uint64_t kThread = 1;

absl::Time At(double seconds) {
  return kBegin + absl::Seconds(seconds);
}

Waited For(WaitCause cause, double seconds) {
  Waited waited;
  waited.causes[cause] = absl::Seconds(seconds);
  return waited;
}

TimeAccount::Stay Stay(double from, double to) {
  return {.from = At(from), .to = At(to), .blocked = At(to) - At(from)};
}

TEST(TimeAccountTest, AThreadComputesBetweenItsWaits) {
  TimeAccount account;
  account.Begin(kThread, At(0));
  account.Blocked(kThread, Stay(3, 4), For(WaitCause::kStaleness, 1));
  account.Blocked(kThread, Stay(6, 8), For(WaitCause::kQueue, 2));
  const TimeSplit split = account.split();
  EXPECT_EQ(split.all, 8);
  EXPECT_EQ(split.compute, 5);
  EXPECT_EQ(split.blocked.staleness, 1);
  EXPECT_EQ(split.blocked.queue, 2);
  EXPECT_EQ(split.blocked.total(), 3);
}

TEST(TimeAccountTest, AThreadThatDidNotBeginCountsFromItsFirstWait) {
  TimeAccount account;
  account.Blocked(kThread, Stay(100, 101), For(WaitCause::kWork, 1));
  EXPECT_EQ(account.split().all, 1);
  EXPECT_EQ(account.split().threads, 1u);
}

TEST(TimeAccountTest, ALateThreadWaitsForTheCausesOfTheWholeOperation) {
  Waited waited = For(WaitCause::kStaleness, 3);
  waited.causes[WaitCause::kNetwork] = absl::Seconds(1);
  TimeAccount account;
  account.Ended(waited);
  account.Blocked(kThread, Stay(2, 4), waited);
  EXPECT_EQ(account.split().blocked.staleness, 1.5);
  EXPECT_EQ(account.split().blocked.network, .5);
  EXPECT_EQ(account.split().overlapped.staleness, 1.5);
  EXPECT_EQ(account.split().overlapped.network, .5);
}

TEST(TimeAccountTest, AnOperationThatNobodyWaitsForOverlaps) {
  TimeAccount account;
  account.Ended(For(WaitCause::kNetwork, 7));
  EXPECT_EQ(account.split().overlapped.network, 7);
  EXPECT_EQ(account.split().all, 0);
}

TEST(TimeAccountTest, WaitsThatEndedBeforeWhatTheyWaitedForCountOnceItIsKnown) {
  TimeAccount account;
  account.Begin(kThread, At(0));
  // Looked twice for 1 s, between 2 and 6; the rest of that time it computed.
  account.Blocked(kThread, {.from = At(2), .to = At(6), .blocked = absl::Seconds(2)},
                  For(WaitCause::kApply, 4));
  EXPECT_EQ(account.split().compute, 4);
  EXPECT_EQ(account.split().blocked.apply, 2);
}

// Whatever threads do, and whatever causes they are told, nothing is lost or counted twice.
TEST(TimeAccountTest, TheCausesAddUpToTheTimeThatPassed) {
  std::mt19937_64 random(1);
  const auto upto = [&](double most) { return std::uniform_real_distribution<double>(0, most)(random); };
  for (int round = 0; round < 50; ++round) {
    TimeAccount account;
    double expected = 0;
    for (uint64_t thread = 1; thread <= 5; ++thread) {
      double now = upto(10);
      const double began = now;
      account.Begin(thread, At(now));
      for (int i = 0; i < 40; ++i) {
        now += upto(1);
        const double from = now;
        now += upto(2);
        Waited waited;
        for (size_t cause = 0; cause < kWaitCauses; ++cause) {
          if (random() % 3 == 0) waited.causes[static_cast<WaitCause>(cause)] = absl::Seconds(upto(3));
        }
        account.Blocked(thread, Stay(from, now), waited);
      }
      expected += absl::ToDoubleSeconds(At(now) - At(began));
    }
    const TimeSplit split = account.split();
    EXPECT_THAT(split.all, DoubleNear(expected, 1e-6));
    EXPECT_THAT(split.compute + split.blocked.total(), DoubleNear(split.all, 1e-6));
    const v1::WorkerTime report = account.Report();
    EXPECT_THAT(static_cast<double>(report.all_us()) / 1e6, DoubleNear(expected, 1e-4));
  }
}

TEST(TimeAccountTest, ReportsWhomWhereAndOfWhatTheLongestWaitsWere) {
  TimeAccount account;
  const auto info = [](uint32_t id, const std::string& name, Consistency consistency) {
    return std::make_shared<const TableInfo>(
        TableInfo{.id = TableId(id),
                  .name = name,
                  .schema = {},
                  .placement = ring::Placement::Sparse(TableId(id), 2).value(),
                  .consistency = consistency});
  };
  double now = 0;
  for (uint32_t i = 1; i <= 20; ++i) {
    Waited waited = For(WaitCause::kStaleness, i);
    waited.for_rank = i;
    waited.shard = ShardId(i);
    waited.table = info(i % 2, i % 2 == 0 ? "even" : "odd", Ssp{.staleness = 3 + i % 2});
    account.Blocked(kThread, Stay(now, now + i), waited);
    now += i;
    Waited queue = For(WaitCause::kQueue, i);
    queue.shard = ShardId(i % 2);
    account.Blocked(kThread, Stay(now, now + i), queue);
    now += i;
  }
  const v1::WorkerTime report = account.Report();
  ASSERT_THAT(report.for_workers(), SizeIs(TimeAccount::kReportedMax));
  EXPECT_EQ(report.for_workers(0).rank(), 20u);
  EXPECT_EQ(report.for_workers(0).staleness_us(), 20'000'000u);
  ASSERT_THAT(report.at_shards(), SizeIs(TimeAccount::kReportedMax));
  EXPECT_EQ(report.at_shards(0).shard(), 0u);
  EXPECT_EQ(report.at_shards(0).queue_us(), 110'000'000u);
  ASSERT_THAT(report.of_tables(), SizeIs(2));
  EXPECT_EQ(report.of_tables(0).name(), "even");
  EXPECT_EQ(report.of_tables(0).bound(), 3u);
}

TEST(TimeAccountTest, HoweverManyThreadsAndNamesThereAreItStaysSmall) {
  TimeAccount account;
  for (uint32_t i = 0; i < 1000; ++i) {
    Waited waited = For(WaitCause::kStaleness, 1);
    waited.for_rank = i;
    account.Blocked(i, Stay(i, i + 1), waited);
  }
  EXPECT_EQ(account.split().threads, 1000u);
  EXPECT_EQ(account.split().all, 1000) << "of the threads that are forgotten too";
  EXPECT_LT(account.Report().ByteSizeLong(), 1000u);
}

TEST(WaitedBuilderTest, TheCausesOfAnOperationTakeNoMoreThanItTook) {
  WaitedBuilder built(absl::Seconds(3));
  EXPECT_EQ(built.Take(WaitCause::kRoute, absl::Seconds(1)), 1);
  EXPECT_EQ(built.Take(WaitCause::kStaleness, absl::Seconds(9)), 2);
  EXPECT_EQ(built.Take(WaitCause::kQueue, absl::Seconds(1)), 0);
  EXPECT_EQ(built.Take(WaitCause::kQueue, -absl::Seconds(1)), 0);
  EXPECT_EQ(built.TakeRest(WaitCause::kNetwork), 0);
  EXPECT_EQ(built.waited.causes.Total(), absl::Seconds(3));
}

}  // namespace
}  // namespace paceline::sdk
