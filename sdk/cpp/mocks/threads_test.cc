// Many threads and one client, and operations that wait for each other: over real gRPC, a real coordinator
// and real shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "libs/world/real_clock.h"
#include "sdk/cpp/mocks/cluster_fixture.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kThreads = 8;

class SharedClient : public ClusterFixture {
 protected:
  void Start(int shards, ClientOptions options = {}) {
    options.job = "shared";
    options.workers = 1;
    StartCluster({.shards = shards}, options);
  }

  // Runs `work(t)` on kThreads threads.
  template <class Work>
  static void OnThreads(Work work) {
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([&work, t] { work(t); });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(SharedClient, TheTimeOfEachThreadIsWaitingOrComputing) {
  Start(2);
  Table table = OpenOrCreate("t", Sparse{.dim = 1, .consistency = Asp{}});
  const TimeSplit before = client_->stats().time;
  std::mutex mutex;
  double with_first_wait = 0, passed = 0;
  OnThreads([&](uint64_t thread) {
    // A thread counts from some moment of its first wait on.
    const absl::Time first_wait = world::MonotonicNow();
    ASSERT_THAT(table.Pull({thread}), IsOk());
    const absl::Time began = world::MonotonicNow();
    for (uint64_t i = 0; i < 100; ++i) {
      Future<std::vector<float>> pulled = table.PullAsync({i, i + 1, thread});
      for (const absl::Time until = world::MonotonicNow() + absl::Milliseconds(1);
           world::MonotonicNow() < until;) {
      }
      ASSERT_THAT(std::move(pulled).Get(), IsOk());
      ASSERT_THAT(table.Push({thread}, {1.0f}), IsOk());
    }
    const absl::Time end = world::MonotonicNow();
    const std::lock_guard lock(mutex);
    with_first_wait += absl::ToDoubleSeconds(end - first_wait);
    passed += absl::ToDoubleSeconds(end - began);
  });
  const TimeSplit time = client_->stats().time;
  EXPECT_EQ(time.threads, before.threads + kThreads);
  const double all = time.all - before.all;
  EXPECT_GE(all, 0.98 * passed);
  EXPECT_LE(all, 1.02 * with_first_wait);
  EXPECT_NEAR(time.compute + time.blocked.total(), time.all, 1e-6);
  EXPECT_GT(time.compute - before.compute, 0.001 * 100 * kThreads);
  EXPECT_GT(time.blocked.network, 0);
  EXPECT_GE(time.overlapped.network, 0);
}

TEST_F(SharedClient, PushesPullsTicksAndFlushesCountExactly) {
  Start(2);
  Table counts = OpenOrCreate("counts", Sparse{.rule = Add{}, .consistency = Ssp{.staleness = 0}});
  Table line = OpenOrCreate("line", Ranged{.rows = 1000, .dim = 2, .rule = Add{}});
  constexpr uint64_t kClocks = 20;
  constexpr uint64_t kKeys = 1200;  // enough for batches to lie in pooled memory
  std::barrier clock_ends(kThreads);
  std::atomic<uint64_t> wrong = 0;
  OnThreads([&](uint64_t t) {
    std::vector<uint64_t> keys;
    for (uint64_t k = 0; k < kKeys; ++k) keys.push_back(k);
    keys.push_back(100'000 + t);  // this thread's own
    const std::vector<float> ones(keys.size(), 1.0f);
    for (uint64_t c = 0; c < kClocks; ++c) {
      EXPECT_THAT(counts.Push(keys, ones), IsOk());
      counts.PushAsync(keys, ones).OnReady([&](const absl::Status& status) { wrong += !status.ok(); });
      const std::vector<float> two(2 * 100, 1.0f);
      EXPECT_THAT(line.PushRange(100 * t, two), IsOk());
      const auto seen = counts.Pull(keys);
      ASSERT_THAT(seen, IsOk());
      // Own pushes of this thread: all. Of the others: any, but never more than there are.
      EXPECT_EQ(seen->back(), 2.0f * (c + 1));
      EXPECT_LE(seen->front(), 2.0f * kThreads * (c + 1));
      EXPECT_GE(seen->front(), 2.0f * kThreads * c + 2.0f);
      if (c % 5 == t % 5) {
        EXPECT_THAT(client_->Flush(), IsOk());
      }
      clock_ends.arrive_and_wait();
      if (t == 0) {
        EXPECT_THAT(client_->Tick(), IsOk());
      }
      clock_ends.arrive_and_wait();
      EXPECT_EQ(client_->clock(), c + 1);
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_THAT(client_->Finish(), IsOk());

  auto reader = cluster_->Connect({.job = "shared"});
  ASSERT_THAT(reader, IsOk());
  std::vector<uint64_t> keys;
  for (uint64_t k = 0; k < kKeys; ++k) keys.push_back(k);
  EXPECT_THAT((*reader)->Open("counts")->Pull(keys), IsOkAndHolds(Each(2.0f * kThreads * kClocks)));
  EXPECT_THAT((*reader)->Open("line")->PullRange(0, 800), IsOkAndHolds(Each(1.0f * kClocks)));
  EXPECT_THAT((*reader)->Open("line")->PullRange(800, 200), IsOkAndHolds(Each(0.0f)));
  const Stats stats = client_->stats();
  EXPECT_EQ(stats.rows_pushed, kThreads * kClocks * (2 * (kKeys + 1) + 100));
  EXPECT_EQ(stats.bytes_unacknowledged, 0u);
}

TEST_F(SharedClient, TheBoundOfUnacknowledgedBytesHoldsForAllThreadsTogether) {
  constexpr uint64_t kPushBytes = 100 * 12;
  Start(1, {.unacknowledged_bytes_max = 3 * kPushBytes});
  Table counts = OpenOrCreate("counts", Sparse{});
  std::atomic<bool> done = false;
  uint64_t most = 0;
  std::thread watcher([&] {
    while (!done) most = std::max(most, client_->stats().bytes_unacknowledged);
  });
  OnThreads([&](uint64_t t) {
    std::vector<uint64_t> keys;
    for (uint64_t k = 0; k < 100; ++k) keys.push_back(100 * t + k);
    for (int i = 0; i < 100; ++i) {
      counts.PushAsync(keys, std::vector<float>(100, 1.0f)).OnReady([](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
      });
    }
  });
  EXPECT_THAT(client_->Flush(), IsOk());
  done = true;
  watcher.join();
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, 3 * kPushBytes);
  EXPECT_GT(client_->stats().wait.back_pressure, 0);
}

TEST_F(SharedClient, ComesAndGoesWhileOthersWork) {
  Start(1);
  Table counts = OpenOrCreate("counts", Sparse{});
  OnThreads([&](uint64_t t) {
    for (int i = 0; i < 3; ++i) {
      auto client = cluster_->Connect({.job = "shared"});
      ASSERT_THAT(client, IsOk());
      auto table = (*client)->Open("counts");
      ASSERT_THAT(table, IsOk());
      EXPECT_THAT(table->Push({t}, {1.0f}), IsOk());
      auto under_way = table->PullAsync({t});
      client->reset();
      // Either it was quicker, or it was told.
      const auto ended = under_way.Get();
      if (!ended.ok()) {
        EXPECT_THAT(ended, StatusIs(absl::StatusCode::kCancelled));
      }
      EXPECT_THAT(table->Push({t}, {1.0f}),
                  StatusIs(absl::StatusCode::kCancelled, HasSubstr("connect again")));
    }
  });
  EXPECT_THAT(counts.Pull({0, 7}), IsOkAndHolds(ElementsAre(3.0f, 3.0f)));
}

// -- Operations that come after others --

// Notes the order in which operations ended. An entry that is noted at once, before its successors start, is
// noted before that starts.
class Order {
 public:
  template <class T>
  Future<T> Note(const std::string& name, Future<T> future) {
    future.OnReady([this, name](const auto&) { Add(name); });
    return future;
  }
  void Add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    at_.emplace(name, at_.size());
  }
  size_t Of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return at_.at(name);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, size_t> at_;
};

TEST_F(SharedClient, ATaskGraphRunsInItsOrder) {
  //   pull w ──▶ push w ──▶ ┐
  //   push a ─────────────▶ ├─▶ tick ──▶ pull w again ──▶ note
  //   push b ──▶ pull b ──▶ ┘
  Start(2);
  Table w = OpenOrCreate("w", Ranged{.rows = 64, .init = Constant{.value = 1}, .rule = Add{}});
  Table log = OpenOrCreate("log", Sparse{.dim = 2});
  for (uint64_t step = 0; step < 25; ++step) {
    Order order;
    const float before = 1.0f + 2.0f * step;
    const auto pulled = order.Note("pulled", w.PullRangeAsync(0, 64));
    const auto pushed = order.Note("pushed", pulled.AndThen([&](const std::vector<float>& values) {
      EXPECT_THAT(values, Each(before));
      order.Add("push w starts");
      return w.PushRangeAsync(0, std::vector<float>(64, 2.0f));
    }));
    const auto a = order.Note("a", log.PushAsync({1}, {1, 0}));
    const auto b = order.Note("b", log.PushAsync({2}, {0, 1}, {.after = a}));
    const auto read_b = order.Note("read b", log.PullAsync({2}, {.after = b}));
    const auto ticked = order.Note("ticked", client_->TickAfter(WhenAll(pushed, a, read_b)));
    const auto again = order.Note("again", w.PullRangeAsync(0, 64, {.after = ticked}));
    const Future<void> noted = again.AndThen([&](const std::vector<float>& values) {
      EXPECT_THAT(values, Each(before + 2.0f));
      EXPECT_EQ(client_->clock(), step + 1);
    });
    EXPECT_THAT(noted.Get(), IsOk());
    EXPECT_THAT(read_b.Get(), IsOkAndHolds(ElementsAre(0.0f, 1.0f * (step + 1))));
    EXPECT_LT(order.Of("pulled"), order.Of("push w starts"));
    EXPECT_LT(order.Of("push w starts"), order.Of("pushed"));
    EXPECT_LT(order.Of("a"), order.Of("b"));
    EXPECT_LT(order.Of("b"), order.Of("read b"));
    for (const char* earlier : {"pushed", "a", "read b"}) EXPECT_LT(order.Of(earlier), order.Of("ticked"));
    EXPECT_LT(order.Of("ticked"), order.Of("again"));
  }
  EXPECT_THAT(client_->Finish(), IsOk());
}

// A push to an aggregated table is committed after this worker's tick only: a graph that waited for that
// would never tick. Its order on the stream is enough.
TEST_F(SharedClient, ATickComesAfterPushesThatAreNotCommitted) {
  Start(2);
  Table sums = OpenOrCreate("sums", Ranged{.rows = 8, .rule = Add{}, .consistency = Bsp{}});
  Table other = OpenOrCreate("other", Sparse{.rule = Add{}, .consistency = Ssp{.staleness = 0}});
  Future<void> ticked;
  for (uint64_t step = 0; step < 20; ++step) {
    const float before = static_cast<float>(step);
    const Future<std::vector<float>> pulled = sums.PullRangeAsync(0, 8, {.after = ticked});
    const Future<void> pushed = pulled.AndThen([&sums, before](const std::vector<float>& values) {
      EXPECT_THAT(values, Each(before)) << "all of the clocks before, and nothing of this one";
      return sums.PushRangeAsync(0, std::vector<float>(8, 1.0f));
    });
    const Future<void> counted = other.PushAsync({step}, {1.0f}, {.after = ticked});
    ticked = client_->TickAfter(WhenAll(pushed, counted).Placed());
  }
  EXPECT_THAT(ticked.Get(), IsOk());
  EXPECT_EQ(client_->clock(), 20u);
  EXPECT_THAT(other.Pull({0, 19}), IsOkAndHolds(ElementsAre(1.0f, 1.0f)));
  EXPECT_THAT(client_->Finish(), IsOk());
}

TEST_F(SharedClient, AnErrorEndsTheOperationsAfterIt) {
  Start(1);
  Table t = OpenOrCreate("t", Ranged{.rows = 10});
  const Future<std::vector<float>> wrong = t.PullAsync({10});
  EXPECT_THAT(wrong.Get(), StatusIs(absl::StatusCode::kOutOfRange));
  const Future<void> pushed = t.PushAsync({1}, {5.0f}, {.after = WhenAll(wrong)});
  const Future<std::vector<float>> pulled = t.PullAsync({1}, {.after = pushed});
  const Future<void> ticked = client_->TickAfter(WhenAll(pulled, pushed));
  EXPECT_THAT(pushed.Get(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(pulled.Get(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(ticked.Get(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(client_->clock(), 0u);
  EXPECT_THAT(client_->Flush(), StatusIs(absl::StatusCode::kOutOfRange))
      << "a push whose future was dropped may have ended so";
  EXPECT_THAT(client_->Flush(), IsOk());
  EXPECT_EQ(client_->stats().rows_pushed, 0u);
  // Asked otherwise, they start.
  EXPECT_THAT(t.PushAsync({1}, {5.0f}, {.after = WhenAllEnded(wrong)}).Get(), IsOk());
  EXPECT_THAT(t.Pull({1}, PullOptions{.after = WhenAllEnded(pushed)}), IsOkAndHolds(ElementsAre(5.0f)));
  EXPECT_THAT(t.Pull({1}, PullOptions{.after = pushed}), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(SharedClient, TimeCountsFromTheStart) {
  Start(2, {.timeout = absl::Seconds(20)});
  Table t = OpenOrCreate("t", Sparse{});
  std::vector<uint64_t> keys;
  for (uint64_t k = 0; k < 64; ++k) keys.push_back(k);
  ASSERT_THAT(t.Pull(keys), IsOk());
  // Nobody will ever reach this clock: it ends by its own, longer timeout.
  const absl::Time began = world::MonotonicNow();
  const Future<std::vector<float>> late =
      t.PullAsync(keys, {.min_clock = 1'000'000, .timeout = absl::Milliseconds(600)});
  const Future<std::vector<float>> after =
      t.PullAsync(keys, {.timeout = absl::Milliseconds(300), .after = WhenAllEnded(late)});
  const Future<void> pushed = t.PushAsync(keys, std::vector<float>(64, 1.0f),
                                          {.timeout = absl::Milliseconds(350), .after = WhenAllEnded(late)});
  EXPECT_THAT(after.Get(), IsOk());
  EXPECT_THAT(pushed.Get(), IsOk());
  EXPECT_THAT(late.Get(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GT(world::MonotonicNow() - began, absl::Milliseconds(350)) << "longer than either had";
}

TEST_F(SharedClient, CallbacksStartOperationsAndNeverHang) {
  // Each step of each chain is started by the callback of the one before, with hardly any room for pushes.
  Start(1, {.unacknowledged_bytes_max = 64});
  Table t = OpenOrCreate("t", Sparse{});
  std::atomic<uint64_t> refused = 0;
  OnThreads([&](uint64_t thread) {
    Future<void> last;
    for (int i = 0; i < 50; ++i) last = t.PushAsync({thread}, {1.0f}, {.after = last});
    EXPECT_THAT(last.Get(), IsOk());
    const Future<void> chain =
        last.AndThen([&, thread] { return t.PushAsync({100 + thread}, {1.0f}); })
            .Then([&](const auto& status) {
              // In a callback there is no waiting for room; whether there was some is up to the others.
              if (!status.ok()) {
                EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
                ++refused;
              }
              return t.PullAsync({thread}).AndThen(
                  [&](const std::vector<float>& values) { EXPECT_THAT(values, ElementsAre(50.0f)); });
            });
    EXPECT_THAT(chain.Get(), IsOk());
  });
  EXPECT_THAT(client_->Flush(), IsOk());
  float sum = 0;
  for (uint64_t t2 = 0; t2 < kThreads; ++t2) sum += t.Pull({100 + t2}).value()[0];
  EXPECT_EQ(sum + static_cast<float>(refused), kThreads);
}

TEST_F(SharedClient, ADestroyedClientEndsWaitingOperations) {
  Start(1);
  Table t = OpenOrCreate("t", Sparse{});
  const Future<std::vector<float>> never = t.PullAsync({1}, {.min_clock = 1'000'000});
  const Future<void> pushed = t.PushAsync({1}, {1.0f}, {.after = WhenAll(never)});
  const Future<void> forced = t.PushAsync({1}, {1.0f}, {.after = WhenAllEnded(never)});
  const Future<void> ticked = client_->TickAfter(forced);
  client_.reset();
  EXPECT_THAT(never.Get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(pushed.Get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(forced.Get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(ticked.Get(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(SharedClient, FlushWaitsForPushesThatHaveNotStarted) {
  Start(1);
  Table t = OpenOrCreate("t", Sparse{});
  const Future<std::vector<float>> late =
      t.PullAsync({1}, {.min_clock = 1'000'000, .timeout = absl::Milliseconds(200)});
  (void)t.PushAsync({1}, {1.0f}, {.after = WhenAllEnded(late)});
  EXPECT_THAT(client_->Flush(), IsOk());
  EXPECT_TRUE(late.ready());
  EXPECT_THAT(t.Pull({1}, PullOptions{.min_clock = 0}), IsOkAndHolds(ElementsAre(1.0f)));
}

}  // namespace
}  // namespace paceline
