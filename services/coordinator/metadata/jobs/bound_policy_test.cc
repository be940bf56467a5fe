#include "services/coordinator/metadata/jobs/bound_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "libs/clock/consistency.h"
#include "libs/ring/hash.h"

namespace paceline::coordinator {
namespace {

constexpr uint32_t kMax = 16;

// Workers under SSP in virtual time, microseconds: a worker begins clock c when all others have ended clock c
// - s - 1.
class Job {
 public:
  using Compute = std::function<uint64_t(size_t worker, uint64_t clock)>;

  Job(size_t workers, Compute compute, uint32_t max = kMax)
      : compute_(std::move(compute)), max_(max), ends_(workers), waits_(workers) {
    for (size_t w = 0; w < workers; ++w) waits_[w].session = 100 + w;
  }

  // Until the slowest worker is at this time. The policy sees what workers have told with their last
  // keep-alives. A larger bound counts from the next clock on, as workers are told of it, a smaller one two
  // clocks later. nullptr: the bound stays.
  void RunTo(uint64_t time, BoundPolicy* policy) {
    for (;;) {
      const size_t next = Next();
      if (Now(next) >= time) return;
      Step(next);
      const uint64_t keep_alive = told_at_ < 2'000'000 ? 100'000 : 250'000;
      if (policy == nullptr || Slowest() < told_at_ + keep_alive) continue;
      told_at_ = Slowest();
      const auto bound = policy->Next({bounds_.rbegin()->second, bounds_.rbegin()->first}, max_, waits_);
      if (bound.has_value()) SetBound(*bound);
    }
  }

  void SetBound(uint32_t bound) {
    uint64_t newest = 0;
    for (const auto& ends : ends_) newest = std::max<uint64_t>(newest, ends.size());
    bounds_[newest == 0 ? 0 : newest + (bound > this->bound() ? 1 : 3)] = bound;
    ++changes_;
  }

  uint32_t bound() const { return bounds_.rbegin()->second; }
  int changes() const { return changes_; }
  // The largest bound so far.
  uint32_t largest() const {
    uint32_t largest = 0;
    for (const auto& [from, bound] : bounds_) largest = std::max(largest, bound);
    return largest;
  }
  uint64_t clocks() const {
    uint64_t clocks = 0;
    for (const auto& ends : ends_) clocks += ends.size();
    return clocks;
  }

 private:
  uint64_t Now(size_t worker) const { return ends_[worker].empty() ? 0 : ends_[worker].back(); }
  uint64_t Slowest() const {
    uint64_t slowest = UINT64_MAX;
    for (size_t w = 0; w < ends_.size(); ++w) slowest = std::min(slowest, Now(w));
    return slowest;
  }
  uint32_t BoundAt(uint64_t clock) const { return std::prev(bounds_.upper_bound(clock))->second; }
  bool MayBegin(size_t worker) const {
    const uint64_t clock = ends_[worker].size();
    const uint32_t bound = BoundAt(clock);
    return std::ranges::all_of(ends_, [&](const auto& ends) { return ends.size() + bound >= clock; });
  }
  size_t Next() const {
    size_t next = ends_.size();
    for (size_t w = 0; w < ends_.size(); ++w) {
      if (MayBegin(w) && (next == ends_.size() || Now(w) < Now(next))) next = w;
    }
    return next;
  }
  void Step(size_t worker) {
    const uint64_t clock = ends_[worker].size();
    const uint32_t bound = BoundAt(clock);
    uint64_t begin = Now(worker);
    std::optional<uint32_t> for_whom;
    for (size_t other = 0; clock > bound && other < ends_.size(); ++other) {
      const uint64_t ended = ends_[other][clock - bound - 1];
      if (other == worker || ended <= begin) continue;
      begin = ended;
      for_whom = static_cast<uint32_t>(other);
    }
    BoundPolicy::Waits& waits = waits_[worker];
    if (for_whom.has_value()) {
      waits.staleness_us += begin - Now(worker);
      waits.for_us[*for_whom] += begin - Now(worker);
    }
    ends_[worker].push_back(begin + compute_(worker, clock));
    waits.all_us = Now(worker);
    waits.clock = ends_[worker].size();
  }

  const Compute compute_;
  const uint32_t max_;
  std::vector<std::vector<uint64_t>> ends_;  // of each worker's clocks
  std::vector<BoundPolicy::Waits> waits_;
  std::map<uint64_t, uint32_t> bounds_ = {{0, clock::BoundOf(0, max_)}};  // by the clock they begin with
  uint64_t told_at_ = 0;
  int changes_ = 0;
};

// The clocks that all workers together end within a minute and a half, the first half minute left out.
uint64_t ClocksOf(Job& job, BoundPolicy* policy) {
  job.RunTo(30'000'000, policy);
  const uint64_t before = job.clocks();
  job.RunTo(90'000'000, policy);
  return job.clocks() - before;
}

uint64_t BestFixed(size_t workers, const Job::Compute& compute) {
  uint64_t best = 0;
  for (uint32_t bound = 1; bound <= kMax; bound *= 2) {
    Job job(workers, compute);
    job.SetBound(bound);
    best = std::max(best, ClocksOf(job, nullptr));
  }
  return best;
}

double Uniform(uint64_t a, uint64_t b) {
  return static_cast<double>(ring::Mix64(a, b) >> 11) / static_cast<double>(uint64_t{1} << 53);
}

TEST(BoundPolicyTest, WorkersThatDoNotWaitNeedNoLargerBound) {
  Job job(4, [](size_t, uint64_t) { return 20'000; });
  BoundPolicy policy;
  job.RunTo(60'000'000, &policy);
  EXPECT_LE(job.largest(), clock::kFirstBound);
}

// Equal workers whose clocks take more or less at random wait at a small bound, and hardly at a larger one.
TEST(BoundPolicyTest, UnevenClocksOfEqualWorkersAreEvenedOut) {
  const auto compute = [](size_t worker, uint64_t clock) {
    return static_cast<uint64_t>(5'000 + 30'000 * Uniform(worker, clock));
  };
  Job job(4, compute);
  BoundPolicy policy;
  const uint64_t clocks = ClocksOf(job, &policy);
  EXPECT_GE(static_cast<double>(clocks) * 1.05, static_cast<double>(BestFixed(4, compute)));
}

// Nobody gains by any bound if one worker is always slow: a larger one is tried, then smaller ones.
TEST(BoundPolicyTest, ASteadyStragglerIsNotWorthABound) {
  const auto compute = [](size_t worker, uint64_t) -> uint64_t { return worker == 2 ? 60'000 : 20'000; };
  Job job(4, compute);
  BoundPolicy policy;
  const uint64_t clocks = ClocksOf(job, &policy);
  EXPECT_EQ(job.bound(), 1u);
  EXPECT_LE(job.largest(), kMax);
  EXPECT_LE(job.changes(), 16) << "the pauses between tries grow";
  EXPECT_GE(static_cast<double>(clocks) * 1.05, static_cast<double>(BestFixed(4, compute)));
}

// Workers that are slow in turn, for some clocks each.
TEST(BoundPolicyTest, StragglersInTurnAreEvenedOut) {
  const auto compute = [](size_t worker, uint64_t clock) -> uint64_t {
    return clock / 3 % 4 == worker ? 60'000 : 10'000;
  };
  Job job(4, compute);
  BoundPolicy policy;
  const uint64_t clocks = ClocksOf(job, &policy);
  EXPECT_GE(static_cast<double>(clocks) * 1.05, static_cast<double>(BestFixed(4, compute)));
}

// Until then the job waits.
TEST(BoundPolicyTest, TheFirstClimbIsShort) {
  Job job(4, [](size_t worker, uint64_t clock) -> uint64_t {
    return clock / 12 % 4 == worker ? 60'000 : 10'000;
  });
  BoundPolicy policy;
  job.RunTo(600'000, &policy);
  EXPECT_GE(job.bound(), 2 * clock::kFirstBound);
}

// Twice as stale values are not worth a few hundredths of the time.
TEST(BoundPolicyTest, ALargerBoundHasToSaveMoreThanALittle) {
  BoundPolicy policy;
  std::vector<BoundPolicy::Waits> workers = {{.session = 1}, {.session = 2}};
  uint32_t bound = 4;
  const std::map<uint32_t, uint64_t> share = {{4, 300'000}, {8, 55'000}, {16, 20'000}};
  std::vector<uint32_t> bounds = {bound};
  for (int tells = 0; tells < 12; ++tells) {
    bound = policy.Next({.bound = bound, .from = 0}, kMax, workers).value_or(bound);
    if (bound != bounds.back()) bounds.push_back(bound);
    for (BoundPolicy::Waits& worker : workers) {
      worker.clock += 20;
      worker.all_us += 1'000'000;
      worker.staleness_us += share.at(bound);
    }
  }
  EXPECT_THAT(bounds, testing::ElementsAre(4, 8, 16, 8));
}

TEST(BoundPolicyTest, NeverAboveTheLargestThatIsAllowed) {
  for (const uint32_t max : {1u, 3u, 5u}) {
    Job job(
        4, [](size_t worker, uint64_t clock) { return clock / 3 % 4 == worker ? 60'000 : 10'000; }, max);
    BoundPolicy policy;
    job.RunTo(60'000'000, &policy);
    EXPECT_LE(job.largest(), max);
  }
}

// A bound that nobody needs any more is lowered, step by step, and stays where nobody waits.
TEST(BoundPolicyTest, ABoundThatIsNotNeededIsLoweredSlowly) {
  Job job(4, [](size_t, uint64_t) { return 20'000; });
  job.SetBound(16);
  BoundPolicy policy;
  job.RunTo(4'000'000, &policy);
  EXPECT_GE(job.bound(), 12u) << "not at once";
  job.RunTo(120'000'000, &policy);
  EXPECT_EQ(job.bound(), 1u);
}

TEST(BoundPolicyTest, AsksAgainUntilItIsInForce) {
  BoundPolicy policy;
  std::vector<BoundPolicy::Waits> workers = {{.session = 1}, {.session = 2}};
  std::optional<uint32_t> asked;
  for (int tells = 0; tells < 2; ++tells) {
    asked = policy.Next({}, kMax, workers);
    for (BoundPolicy::Waits& worker : workers) {
      worker.clock += 10;
      worker.all_us += 1'000'000;
      worker.staleness_us += 500'000;
    }
  }
  ASSERT_EQ(asked, 2u);
  EXPECT_EQ(policy.Next({}, kMax, workers), 2u) << "the coordinator could not commit it";
  EXPECT_EQ(policy.Next({.bound = 2, .from = 1000}, kMax, workers), std::nullopt);
}

TEST(BoundPolicyTest, OneWorkerNeedsNoBound) {
  BoundPolicy policy;
  std::vector<BoundPolicy::Waits> workers = {{.session = 1}};
  for (int tells = 0; tells < 9; ++tells) {
    EXPECT_EQ(policy.Next({}, kMax, workers), std::nullopt);
    workers[0].clock += 10;
    workers[0].all_us += 1'000'000;
    workers[0].staleness_us += 500'000;
  }
}

}  // namespace
}  // namespace paceline::coordinator
