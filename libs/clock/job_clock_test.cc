#include "libs/clock/job_clock.h"

#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::clock {
namespace {

using ::testing::Optional;

LineCounts Parts(PartNumber arrival, PartNumber aggregated = 0) {
  return LineCounts{{arrival, aggregated}};
}

constexpr SessionId kA{1};
constexpr SessionId kB{2};

TEST(JobClockTest, MinClockFollowsTheSlowest) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Join(kB, 0, 1);
  clock.Tick(kA, 5, Parts(0), Parts(0));
  EXPECT_EQ(clock.Candidate(), std::nullopt);
  clock.Tick(kB, 3, Parts(0), Parts(0));
  EXPECT_THAT(clock.Candidate(), Optional(3u));
  EXPECT_EQ(clock.Slowest(), kB);
  clock.Advance(3);
  EXPECT_EQ(clock.Candidate(), std::nullopt);
}

TEST(JobClockTest, ATickWaitsForThePartsItSeals) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Tick(kA, 1, Parts(2), Parts(1));
  EXPECT_EQ(clock.Candidate(), std::nullopt) << "one of its two parts is missing";
  clock.Taken(kA, Parts(2));
  EXPECT_THAT(clock.Candidate(), Optional(1u));
}

TEST(JobClockTest, BothLinesMustBeThere) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Tick(kA, 1, Parts(1, 1), Parts(1, 0));
  EXPECT_EQ(clock.Candidate(), std::nullopt);
  clock.Taken(kA, Parts(1, 1));
  EXPECT_THAT(clock.Candidate(), Optional(1u));
}

TEST(JobClockTest, APartOfALaterClockVouchesForTheClocksBeforeIt) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Reached(kA, 3, Parts(2, 1));
  EXPECT_EQ(clock.Candidate(), std::nullopt) << "no tick has come so far";
  clock.Tick(kA, 2, Parts(2, 1), Parts(1, 1));
  clock.Tick(kA, 7, Parts(2, 9), Parts(1, 1));
  clock.Reached(kA, 3, Parts(1, 1));
  EXPECT_EQ(clock.Candidate(), std::nullopt) << "a part of the other line is missing";
  clock.Reached(kA, 8, Parts(2, 1));
  EXPECT_EQ(clock.Candidate(), std::nullopt) << "nor is it so far";
  clock.Reached(kA, 3, Parts(2, 1));
  EXPECT_THAT(clock.Candidate(), Optional(3u));
  clock.Taken(kA, Parts(2, 9));
  EXPECT_THAT(clock.Candidate(), Optional(7u));
}

TEST(JobClockTest, OldAndForeignTicksChangeNothing) {
  JobClock clock;
  clock.Join(kA, 4, 0);
  clock.Tick(kA, 3, Parts(0), Parts(0));
  clock.Tick(kB, 9, Parts(0), Parts(0));
  EXPECT_THAT(clock.Candidate(), Optional(4u)) << "only where it started counts";
}

TEST(JobClockTest, WithoutWorkersTheMinClockStays) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Tick(kA, 2, Parts(0), Parts(0));
  clock.Advance(2);
  clock.Leave(kA);
  EXPECT_EQ(clock.Candidate(), std::nullopt);
  EXPECT_EQ(clock.min_clock(), 2u);
}

TEST(JobClockTest, WithoutWorkersTheMinClockIsThatOfTheLastToFinish) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Join(kB, 0, 1);
  clock.Finish(kA, 9);
  EXPECT_EQ(clock.min_clock(), 0u) << "the other one holds it";
  clock.Leave(SessionId(3));
  EXPECT_EQ(clock.min_clock(), 0u) << "who leaves must have been there";
  clock.Leave(kB);
  EXPECT_EQ(clock.min_clock(), 9u);
  clock.Join(kB, 12, 1);
  clock.Finish(kB, 11);
  EXPECT_EQ(clock.min_clock(), 11u);
}

TEST(JobClockTest, WhoIsNoWorkerHasNoClock) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Finish(kB, 9);
  clock.Tick(kB, 9, Parts(0), Parts(0));
  clock.Taken(kB, Parts(0));
  clock.Reached(kB, 9, Parts(0));
  EXPECT_TRUE(clock.finished().empty());
  EXPECT_FALSE(clock.HasWorker(kB));
  EXPECT_EQ(clock.Members(0), 1u);
  EXPECT_EQ(clock.min_clock(), 0u);
}

TEST(JobClockTest, AFinishedWorkerStaysAMemberOfItsClocks) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Join(kB, 2, 1);
  EXPECT_EQ(clock.Members(1), 1u) << "the second one starts later";
  EXPECT_EQ(clock.Members(2), 2u);
  clock.Finish(kA, 4);
  EXPECT_EQ(clock.Members(1), 1u);
  EXPECT_EQ(clock.Members(3), 2u);
  EXPECT_EQ(clock.Members(4), 1u);
  clock.Advance(4);
  EXPECT_TRUE(clock.finished().empty());
  EXPECT_EQ(clock.Members(4), 1u);
}

TEST(JobClockTest, ALeaverNoLongerHoldsTheOthersUp) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  clock.Join(kB, 0, 1);
  clock.Tick(kA, 9, Parts(0), Parts(0));
  clock.Leave(kB);
  EXPECT_THAT(clock.Candidate(), Optional(9u));
}

TEST(JobClockTest, PendingTicksAreBoundedAndTheNewestSurvives) {
  JobClock clock;
  clock.Join(kA, 0, 0);
  for (Clock c = 1; c <= 100; ++c) clock.Tick(kA, c, Parts(c), Parts(0));
  EXPECT_LE(clock.workers().at(kA).pending.size(), JobClock::kPendingTicksMax);
  clock.Taken(kA, Parts(100));
  EXPECT_THAT(clock.Candidate(), Optional(100u));
}

// Against the definition: the min over workers of the highest tick whose parts are all applied.
TEST(JobClockTest, RandomHistoriesAgreeWithTheDefinition) {
  world::SplitMix64 random(5);
  for (int round = 0; round < 200; ++round) {
    struct Reference {
      std::vector<PartNumber> sealed{0};  // by clock
      PartNumber sent = 0;
      PartNumber applied = 0;
    };
    std::map<SessionId, Reference> workers;
    JobClock clock;
    for (uint64_t w = 1; w <= 3; ++w) {
      clock.Join(SessionId(w), 0, static_cast<uint32_t>(w));
      workers[SessionId(w)];
    }
    for (int step = 0; step < 60; ++step) {
      const SessionId id(1 + world::Uniform(random, 3));
      Reference& worker = workers[id];
      switch (world::Uniform(random, 3)) {
        case 0:
          ++worker.sent;
          break;
        case 1:
          if (worker.sealed.size() > JobClock::kPendingTicksMax) break;  // beyond it ticks may be merged
          worker.sealed.push_back(worker.sent);
          clock.Tick(id, worker.sealed.size() - 1, Parts(worker.sent), Parts(worker.applied));
          break;
        default:
          worker.applied = std::min(worker.applied + 1, worker.sent);
          clock.Taken(id, Parts(worker.applied));
      }
      Clock expected = UINT64_MAX;
      for (const auto& [session, reference] : workers) {
        Clock counted = 0;
        for (Clock c = 0; c < reference.sealed.size(); ++c) {
          if (reference.sealed[c] <= reference.applied) counted = c;
        }
        expected = std::min(expected, counted);
      }
      if (const auto candidate = clock.Candidate()) clock.Advance(*candidate);
      ASSERT_EQ(clock.min_clock(), expected) << "round " << round << " step " << step;
    }
  }
}

// What is counted along the way agrees with a look at every worker.
TEST(JobClockTest, TheSlowestIsKnownWhoeverComesAndGoes) {
  world::SplitMix64 random(7);
  JobClock clock;
  Clock newest = 0;
  for (int step = 0; step < 5000; ++step) {
    const SessionId id(1 + world::Uniform(random, 6));
    switch (world::Uniform(random, 8)) {
      case 0:
        if (!clock.HasWorker(id)) clock.Join(id, clock.min_clock() + world::Uniform(random, 3), 0);
        break;
      case 1:
        clock.Leave(id);
        break;
      case 2:
        clock.Finish(id, newest);
        break;
      case 3:
        if (world::Uniform(random, 10) == 0) clock.ForgetTicks();
        break;
      case 4:
        clock.Reached(id, newest, Parts(newest));
        break;
      case 5:
        if (const auto candidate = clock.Candidate()) clock.Advance(*candidate);
        break;
      default:
        newest += world::Uniform(random, 2);
        clock.Tick(id, newest, Parts(newest), Parts(newest - world::Uniform(random, 2) * (newest > 0)));
    }
    const auto smallest = [&]() -> std::optional<Clock> {
      std::optional<Clock> found;
      for (const auto& [session, worker] : clock.workers()) {
        found = std::min(found.value_or(UINT64_MAX), worker.counted);
      }
      return found > clock.min_clock() ? found : std::nullopt;
    };
    ASSERT_EQ(clock.Candidate(), smallest()) << "step " << step;
  }
}

}  // namespace
}  // namespace paceline::clock
