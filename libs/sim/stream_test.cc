#include "libs/sim/stream.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An end that sends the frames of `outgoing` and keeps those that it receives.
class Peer : public world::AcceptedStream {
 public:
  void Attach(std::shared_ptr<world::StreamPort> p) override { port = std::move(p); }
  void OnFinished() override {}
  bool TakesFrame() override { return heard.size() < takes; }
  void OnFrame(absl::Cord frame) override {
    ASSERT_EQ(ends, 0) << "a frame after the end";
    heard.push_back(std::string(frame));
  }
  bool NextFrame(absl::Cord* frame) override {
    if (outgoing.empty()) return false;
    *frame = absl::Cord(outgoing.front());
    outgoing.pop_front();
    return true;
  }
  void OnBroken(absl::Status) override {
    ++ends;
    port = nullptr;
  }

  std::shared_ptr<world::StreamPort> port;
  std::deque<std::string> outgoing;
  std::vector<std::string> heard;
  size_t takes = SIZE_MAX;
  int ends = 0;
};

class StreamTest : public ::testing::Test {
 protected:
  explicit StreamTest(uint64_t seed = 1) : random(seed) {
    network.Listen("s:1", server_host, [this](world::StreamKind) { return server; });
    client->port = network.Dial(client_host, "s:1", world::StreamKind::kPush, client);
  }
  // Ends and streams hold each other until a stream has ended.
  ~StreamTest() override {
    client->port = nullptr;
    Run();
  }
  void Run() {
    while (scheduler.RunOne()) {
    }
  }

  Scheduler scheduler;
  world::SplitMix64 random;
  HistoryHash history;
  Partitions partitions;
  Network network{scheduler, random, history};
  Host client_host{.name = "c"};
  Host server_host{.name = "s"};
  std::shared_ptr<Peer> client = std::make_shared<Peer>();
  std::shared_ptr<Peer> server = std::make_shared<Peer>();
};

TEST_F(StreamTest, DeliversInOrderBothWays) {
  client->outgoing = {"1", "2", "3"};
  Run();
  server->outgoing = {"a", "b"};
  server->port->Kick();
  Run();
  EXPECT_THAT(server->heard, ElementsAre("1", "2", "3"));
  EXPECT_THAT(client->heard, ElementsAre("a", "b"));
  client->port = nullptr;
  Run();
  EXPECT_EQ(client->ends, 1);
  EXPECT_EQ(server->ends, 1);
  EXPECT_THAT(network.connections(), IsEmpty());
}

TEST_F(StreamTest, FramesWaitUntilTheirHandlerTakesThem) {
  client->outgoing = {"1", "2", "3", "4"};
  server->takes = 1;
  Run();
  EXPECT_THAT(server->heard, ElementsAre("1"));
  server->takes = 3;
  server->port->ReadOn();
  Run();
  EXPECT_THAT(server->heard, ElementsAre("1", "2", "3"));
  server->takes = SIZE_MAX;
  server->port->ReadOn();
  Run();
  EXPECT_THAT(server->heard, ElementsAre("1", "2", "3", "4"));
}

TEST_F(StreamTest, ABreakLosesASuffixAndBothEndsHearOfIt) {
  bool some_lost = false;
  bool some_kept = false;
  for (int round = 0; round < 50; ++round) {
    client->port = nullptr;
    Run();
    client = std::make_shared<Peer>();
    server = std::make_shared<Peer>();
    client->port = network.Dial(client_host, "s:1", world::StreamKind::kPush, client);
    for (int i = 0; i < 5; ++i) client->outgoing.push_back(absl::StrCat(i));
    while (network.connections().back()->under_way() < 4) scheduler.RunOne();
    network.connections().back()->Break(absl::UnavailableError("cut"));
    Run();
    EXPECT_EQ(client->ends, 1);
    EXPECT_EQ(server->ends, 1);
    for (size_t i = 0; i < server->heard.size(); ++i) EXPECT_EQ(server->heard[i], absl::StrCat(i));
    some_lost |= server->heard.size() < 5;
    some_kept |= !server->heard.empty();
  }
  EXPECT_TRUE(some_lost);
  EXPECT_TRUE(some_kept);
}

TEST_F(StreamTest, APausedHostHearsLaterAndInOrder) {
  client->outgoing = {"1", "2"};
  server_host.paused_until = scheduler.Now() + absl::Seconds(5);
  while (scheduler.Now() < server_host.paused_until) ASSERT_TRUE(scheduler.RunOne());
  Run();
  EXPECT_THAT(server->heard, ElementsAre("1", "2"));
  EXPECT_GE(scheduler.Now(), server_host.paused_until);
}

TEST_F(StreamTest, ACutHoldsOneWayUpAndLetsTheOtherThrough) {
  client->outgoing = {"1"};
  Run();
  network.partitions = &partitions;
  int felt = 0;
  const absl::Time until = scheduler.Now() + absl::Seconds(1);
  partitions.Add({{"c", "s"}}, until, [&] { ++felt; });
  server->outgoing = {"b"};
  server->port->Kick();
  while (client->heard.empty()) ASSERT_TRUE(scheduler.RunOne());
  EXPECT_EQ(felt, 0) << "nothing was to go that way";
  client->outgoing = {"2", "3"};
  client->port->Kick();
  while (scheduler.Now() < until) {
    EXPECT_THAT(server->heard, ElementsAre("1"));
    ASSERT_TRUE(scheduler.RunOne());
  }
  Run();
  EXPECT_THAT(server->heard, ElementsAre("1", "2", "3"));
  EXPECT_EQ(felt, 1);
}

TEST_F(StreamTest, NoStreamBeginsWhileOneDirectionIsCut) {
  Run();
  network.partitions = &partitions;
  for (const Partitions::Way& way : Partitions::Both("c", "s")) {
    client->port = nullptr;
    Run();
    int felt = 0;
    const absl::Time until = scheduler.Now() + absl::Seconds(1);
    partitions.Add({way}, until, [&] { ++felt; });
    client = std::make_shared<Peer>();
    client->port = network.Dial(client_host, "s:1", world::StreamKind::kPush, client);
    Run();
    EXPECT_EQ(client->ends, 1);
    EXPECT_EQ(felt, 1);
    scheduler.At(until, [] {});
    Run();
  }
}

TEST_F(StreamTest, TheEndOfAStreamIsHeardBeyondACutOnly) {
  Run();
  network.partitions = &partitions;
  const absl::Time until = scheduler.Now() + absl::Seconds(1);
  partitions.Add({{"s", "c"}}, until, [] {});
  server->port->Close(absl::OkStatus());
  while (client->ends == 0) ASSERT_TRUE(scheduler.RunOne());
  EXPECT_GE(scheduler.Now(), until);
}

}  // namespace
}  // namespace paceline::sim
