// Many threads, of which one carries at a time, over pipes that are full all the time: whoever is not woken
// once waits here for good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/carrier/loop.h"
#include "libs/carrier/test_util/stream_ends.h"
#include "libs/dial/test_ways.h"
#include "libs/world/random.h"

namespace paceline::dial {
namespace {

using carrier::Caller;

// Answers each frame with itself. Takes no further one, now and then, until Take is called.
class ShyEcho final : public world::AcceptedStream {
 public:
  void Attach(std::shared_ptr<world::StreamPort> port) override {
    MutexLock lock(&mutex_);
    port_ = std::move(port);
  }
  bool TakesFrame() override {
    MutexLock lock(&mutex_);
    return takes_;
  }
  void OnFrame(absl::Cord frame) override {
    std::shared_ptr<world::StreamPort> port;
    {
      MutexLock lock(&mutex_);
      answers_.push_back(std::move(frame));
      takes_ = ++frames_ % 5 != 0;
      shy_ = !takes_;
      changed_.SignalAll();
      port = port_;
    }
    if (port != nullptr) port->KickSoon();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (answers_.empty()) return false;
    *frame = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }
  void OnFinished() override {}
  void OnBroken(absl::Status) override {
    std::shared_ptr<world::StreamPort> port;
    MutexLock lock(&mutex_);
    port.swap(port_);
    broken_ = true;
    changed_.SignalAll();
  }
  // Lets it go on whenever it is shy, until the stream ends.
  void Encourage() {
    while (true) {
      std::shared_ptr<world::StreamPort> port;
      {
        MutexLock lock(&mutex_);
        changed_.Await(&mutex_, [this] { return shy_ || broken_; });
        if (broken_) return;
        shy_ = false;
        takes_ = true;
        port = port_;
      }
      port->ReadOn();
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<world::StreamPort> port_;
  std::deque<absl::Cord> answers_;
  uint64_t frames_ = 0;
  bool takes_ = true;
  bool shy_ = false;
  bool broken_ = false;
};

// Rounds of a few frames each, some of them larger than the ring; waits for all of a round, and mostly
// carries meanwhile.
void Ask(carrier::Loop& loop, Caller& asker, world::StreamPort& port, uint64_t seed, int rounds) {
  world::SplitMix64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::string> sent;
    for (uint64_t left = world::Uniform(random, 8) + 1; left > 0; --left) {
      const uint64_t size = world::Uniform(random, world::Uniform(random, 4) == 0 ? 20'000 : 200);
      sent.emplace_back(size, static_cast<char>('a' + left));
      asker.Send(sent.back());
      port.Kick();
    }
    if (world::Uniform(random, 4) != 0) loop.CarryUntil([&] { return asker.Has(sent.size()); });
    ASSERT_EQ(asker.Take(sent.size()), sent) << "seed " << seed << ", round " << round;
  }
}

class Carrying : public ::testing::TestWithParam<const char*> {};

TEST_P(Carrying, NobodyIsForgotten) {
  constexpr int kStreams = 4;
  const char* const more = std::getenv("PACELINE_CARRY_ROUNDS");
  const int rounds = more == nullptr ? 1'000 : std::atoi(more);
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(50)}) {
    Mutex mutex;
    std::vector<std::thread> threads;
    const std::unique_ptr<Way> way = MakeWay(GetParam());
    way->Serve(/*threads=*/1, spin, [&](world::StreamKind) {
      auto echo = std::make_shared<ShyEcho>();
      MutexLock lock(&mutex);
      threads.emplace_back([echo] { echo->Encourage(); });
      return echo;
    });
    auto loop = std::make_shared<carrier::Loop>(carrier::Loop::Options{.spin_max = spin});
    std::vector<std::unique_ptr<world::StreamPort>> ports;
    std::vector<std::thread> askers;
    for (uint64_t i = 0; i < kStreams; ++i) {
      const auto asker = std::make_shared<Caller>();
      ports.push_back(way->Dial(loop, asker));
      ASSERT_NE(ports.back(), nullptr);
      askers.emplace_back([&, asker, i, to = ports.back().get()] { Ask(*loop, *asker, *to, 1 + i, rounds); });
    }
    for (std::thread& thread : askers) thread.join();
    ports.clear();
    loop = nullptr;
    way->StopServing();
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Carrying, ::testing::Values("Near", "Direct"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace paceline::dial
