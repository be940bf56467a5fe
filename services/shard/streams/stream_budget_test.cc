#include "services/shard/streams/stream_budget.h"

#include <deque>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::shard {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(StreamBudgetTest, AStreamIsGrantedItsShareOfHalfTheBudget) {
  StreamBudget budget(64 * kMiB, 16 * kMiB);
  EXPECT_EQ(budget.Begin(kMiB), kMiB);
  EXPECT_EQ(budget.Renew(0, kMiB), 15 * kMiB) << "no more than one stream may hold";
  for (int i = 1; i < 16; ++i) budget.Begin(kMiB);
  EXPECT_EQ(budget.Share(), 2 * kMiB);
  EXPECT_EQ(budget.Renew(kMiB, 15 * kMiB), 0u) << "it holds more than its share";
  EXPECT_EQ(budget.Renew(14 * kMiB, kMiB), kMiB);
  EXPECT_EQ(budget.held(), 17 * kMiB);
}

TEST(StreamBudgetTest, AStreamThatHoldsNothingIsGrantedSomethingWhateverOthersHold) {
  StreamBudget budget(64 * kMiB, 16 * kMiB);
  budget.Begin(UINT64_MAX);
  budget.Overrun(48 * kMiB);
  EXPECT_EQ(budget.Begin(kMiB), 1u);
  EXPECT_EQ(budget.Renew(0, 1), 0u);
  budget.Overrun(kMiB - 1);  // a frame of a megabyte
  EXPECT_EQ(budget.Renew(kMiB, 0), 1u) << "it may send the next one";
  budget.Free(48 * kMiB);
  EXPECT_EQ(budget.Renew(kMiB, 0), 16 * kMiB);
}

TEST(StreamBudgetTest, StreamsAreNotReadOnceClientsHaveSentFarMore) {
  StreamBudget budget(8 * kMiB, kMiB);
  budget.Overrun(16 * kMiB);
  EXPECT_FALSE(budget.Full());
  budget.Overrun(1);
  EXPECT_TRUE(budget.Full());
}

// Clients send whatever they may, in frames of any size, and executors free frames in any pace. Each client
// keeps sending, and what all hold stays within the budget.
TEST(StreamBudgetTest, ManyClientsKeepWithinItAndNoneIsKeptOut) {
  world::SplitMix64 random(7);
  constexpr uint64_t kBudget = 1000;
  constexpr uint64_t kFrameMax = 300;
  struct Client {
    uint64_t granted, sent = 0, freed = 0, limit;
    std::deque<uint64_t> frames = {};
    int done = 0;
  };
  StreamBudget budget(kBudget, 250);
  std::vector<Client> clients;
  for (int step = 0; step < 50'000; ++step) {
    if (clients.size() < 16 && step % 1000 == 0) {
      const uint64_t first = budget.Begin(50);
      clients.push_back({.granted = first, .limit = first});
    }
    Client& client = clients[world::Uniform(random, clients.size())];
    if (client.sent < client.granted && world::Uniform(random, 2) == 0) {
      client.frames.push_back(1 + world::Uniform(random, kFrameMax));
      client.sent += client.frames.back();
      if (client.sent > client.limit) budget.Overrun(client.sent - client.limit);
      client.limit = std::max(client.limit, client.sent);
    } else if (!client.frames.empty()) {
      client.freed += client.frames.front();
      const uint64_t more = budget.Renew(client.frames.front(), client.limit - client.freed);
      client.frames.pop_front();
      ++client.done;
      client.limit += more;
      if (more > 0) client.granted = client.limit;
    }
    uint64_t held = 0;
    uint64_t beyond = 0;
    for (const Client& one : clients) {
      held += one.limit - one.freed;
      beyond += one.limit - std::min(one.limit, one.granted);
      ASSERT_TRUE(one.sent < one.granted || !one.frames.empty())
          << "it may send, or is about to be granted more";
    }
    ASSERT_EQ(budget.held(), held);
    ASSERT_LE(held - beyond, kBudget + clients.size());
    ASSERT_LT(beyond, clients.size() * kFrameMax);
  }
  for (const Client& client : clients) EXPECT_GT(client.done, 300);
}

}  // namespace
}  // namespace paceline::shard
