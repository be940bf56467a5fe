#include "services/shard/context.h"

#include <atomic>
#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/planted.h"
#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two executors, and, once there is a map, four segments.
class ContextTest : public ::testing::Test {
 protected:
  void InstallMap() { InstallMap(context); }
  void InstallMap(Context& on) {
    const ring::Member self{.shard = ShardId(0), .incarnation = Incarnation(1)};
    const ring::SegmentConfig mine{.epoch = Epoch(1), .primary = self, .replicas = {}};
    const ring::ShardInfo info{
        .id = self.shard, .name = "shard", .address = "127.0.0.1:1", .incarnation = self.incarnation};
    on.Publish([&](View& view) {
      view.map = std::make_shared<const ring::SegmentMap>(
          ring::SegmentMap::Create(MapVersion(3), 2, {4, mine}, {info}).value());
      on.MakeRing(view.segments(), around);
      for (const uint32_t segment : {0, 1, 2, 3}) {
        if (segment != without_host) on.AddHost(SegmentId(segment));
      }
    });
  }

  uint32_t without_host = 4;
  testing_members::TestClock clock;
  Probe probe;
  Surroundings around{.shard_name = "shard",
                      .shard = std::make_shared<testing_members::TestBudget>(),
                      .clock = &clock,
                      .port = nullptr};
  Context context{{.executors = 2}, clock, probe};
};

TEST_F(ContextTest, AViewStaysAsItWasTaken) {
  const auto before = context.view();
  EXPECT_EQ(before->map_version(), MapVersion());
  InstallMap();
  EXPECT_EQ(before->segments(), 0u);
  EXPECT_EQ(context.view()->segments(), 4u);
  EXPECT_EQ(context.view()->map_version(), MapVersion(3));
}

TEST_F(ContextTest, VisitsEverySegmentAndThenIsDone) {
  std::vector<uint32_t> visited;
  int done = 0;
  const auto visit = [&] {
    context.ForEachSegment([&](SegmentHost& host) { visited.push_back(host.id().v); }, [&] { ++done; });
  };
  visit();
  EXPECT_THAT(visited, IsEmpty()) << "there is no map yet";
  EXPECT_EQ(done, 1);
  InstallMap();
  visit();
  EXPECT_THAT(visited, ElementsAre(0, 2, 1, 3)) << "an executor after the other";
  EXPECT_EQ(done, 2);
}

TEST_F(ContextTest, ASegmentHasAHostOnceSomethingHappensToIt) {
  without_host = 2;
  InstallMap();
  std::vector<uint32_t> visited;
  const auto visit = [&] {
    visited.clear();
    context.ForEachSegment([&](SegmentHost& host) { visited.push_back(host.id().v); }, [] {});
    return visited;
  };
  EXPECT_THAT(visit(), ElementsAre(0, 1, 3));
  std::vector<uint32_t> without;
  const auto look = [&](SegmentId segment, const SegmentHost* host) {
    if (host == nullptr) without.push_back(segment.v);
  };
  context.ForEachOnRing(look, [] {});
  EXPECT_THAT(without, ElementsAre(2));
  EXPECT_EQ(context.host(SegmentId(2)).id(), SegmentId(2));
  EXPECT_THAT(visit(), ElementsAre(0, 2, 1, 3));
}

TEST_F(ContextTest, AHostThatIsMadeLateKnowsTheMap) {
  without_host = 2;
  InstallMap();
  const auto now = context.Publish([](View& view) { view.self = {ShardId(0), Incarnation(1)}; });
  EXPECT_EQ(context.host(SegmentId(2)).epoch(), Epoch(1));
  EXPECT_EQ(context.host(SegmentId(1)).epoch(), Epoch()) << "it was not told yet";
  context.Follow(now, [] {});
  EXPECT_EQ(context.host(SegmentId(1)).epoch(), Epoch(1));
}

// A primary asks it at each visit.
struct AskedPort final : log::ReplicationPort {
  void Send(const ring::Member&, v1::ReplicateRequest::Segment, absl::Cord) override {}
  void Send(const ring::Member&, const v1::Beacon&) override {}
  void Wish(v1::ConfigWish) override {}
  uint64_t Link(const ring::Member&) override { return 0; }
  absl::Duration NoCoordinator() const override {
    ++visits;
    return absl::ZeroDuration();
  }
  mutable int visits = 0;
};

// Only a member by the first map of all begins empty: nothing was committed without it. A host that is made
// when a later map names the shard is not that, though it hears of its first map.
TEST_F(ContextTest, AHostThatALaterMapAsksForDoesNotBeginEmpty) {
  around.port = std::make_shared<AskedPort>();
  const ring::Member self{.shard = ShardId(0), .incarnation = Incarnation(1)};
  const ring::Member other{.shard = ShardId(1), .incarnation = Incarnation(2)};
  const std::vector<ring::ShardInfo> infos = {
      {.id = self.shard, .name = "shard", .address = "127.0.0.1:1", .incarnation = self.incarnation},
      {.id = other.shard, .name = "other", .address = "127.0.0.1:2", .incarnation = other.incarnation}};
  const auto follow = [&](Context& shard, uint64_t version, const ring::SegmentConfig& config) {
    shard.Follow(shard.Publish([&](View& view) {
      view.self = self;
      view.map = std::make_shared<const ring::SegmentMap>(
          ring::SegmentMap::Create(MapVersion(version), 2, {4, config}, infos).value());
    }),
                 [] {});
  };
  const ring::SegmentConfig without{.epoch = Epoch(1), .primary = other, .replicas = {}};
  const ring::SegmentConfig with{.epoch = Epoch(2), .primary = other, .replicas = {self}};
  const auto begins_empty = [&] {
    Context shard({.executors = 2}, clock, probe);
    shard.MakeRing(4, around);
    follow(shard, 3, without);
    follow(shard, 4, with);
    EXPECT_EQ(shard.host(SegmentId(2)).role(), Role::kReplica);
    return shard.host(SegmentId(2)).state() != nullptr;
  };
  EXPECT_FALSE(begins_empty());
  planted_bug = Bug::kLateHostBeginsEmpty;
  EXPECT_TRUE(begins_empty()) << "else this test could not fail";
  planted_bug = Bug::kNone;
}

TEST_F(ContextTest, VisitsASegmentUntilItWantsNoMoreVisits) {
  const auto port = std::make_shared<AskedPort>();
  around.port = port;
  InstallMap();
  context.ForEachSegment(
      [&](SegmentHost& host) {
        host.Configure(*context.view()->map, {ShardId(0), Incarnation(1)});
      },
      [] {});
  const auto visits = [&] {
    const int before = port->visits;
    context.OnTime(clock.now, [] {});
    return port->visits - before;
  };
  EXPECT_EQ(visits(), 4) << "something has happened to each";
  EXPECT_EQ(visits(), 0) << "to none since, and none has other members";
  EXPECT_TRUE(context.TakeDue());
  EXPECT_FALSE(context.TakeDue());
  clock.now = log::NextBeat(clock.now) - absl::Nanoseconds(1);
  EXPECT_FALSE(context.TakeDue());
  clock.now += absl::Nanoseconds(1);
  EXPECT_TRUE(context.TakeDue()) << "a beat has come";
  EXPECT_FALSE(context.TakeDue());
  (void)context.host(SegmentId(2));
  EXPECT_TRUE(context.TakeDue()) << "something happens to a segment";
  EXPECT_EQ(visits(), 1);
  EXPECT_EQ(visits(), 0);
  ASSERT_TRUE(context.host(SegmentId(2)).Recruit(Epoch(1), {ShardId(1), Incarnation(7)}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(visits(), 1) << "it has a learner";
    EXPECT_TRUE(context.TakeDue()) << "which has no link yet";
  }
}

TEST_F(ContextTest, DealsToTheExecutorsThatGetAny) {
  InstallMap();
  std::vector<std::vector<uint32_t>> dealt;
  const auto deal = [&](std::vector<uint32_t> segments) {
    dealt.clear();
    context.Deal(
        std::move(segments), [](uint32_t segment) { return SegmentId(segment); },
        [&](const std::vector<uint32_t>& mine) { dealt.push_back(mine); });
  };
  deal({3, 2, 1});
  EXPECT_THAT(dealt, ElementsAre(ElementsAre(2), ElementsAre(3, 1))) << "in their order";
  deal({1});
  EXPECT_THAT(dealt, ElementsAre(ElementsAre(1)));
  deal({4, 7});
  EXPECT_THAT(dealt, IsEmpty()) << "they are off the ring";
}

TEST_F(ContextTest, TheHelperSharesWorkOnManyBytes) {
  Context shared({.executors = 2, .helper_thread = true}, clock, probe);
  InstallMap(shared);
  std::promise<void> met[2];
  std::atomic<int> done{0};
  const auto deal = [&](std::vector<uint32_t> segments, uint64_t bytes) {
    shared.Deal(
        std::move(segments), [](uint32_t segment) { return SegmentId(segment); },
        [&](const std::vector<uint32_t>& mine) {
          if (mine.size() == 2) {  // each waits for the other, so one thread could not run both
            met[mine.front() % 2].set_value();
            met[1 - mine.front() % 2].get_future().wait();
          }
          ++done;
        },
        bytes);
  };
  deal({0, 1, 2, 3}, 500'000);
  deal({2}, 500'000);
  deal({0, 1}, 100);
  deal({0, 1}, 10'000'000);
  shared.End();
  EXPECT_EQ(done, 7);
}

TEST_F(ContextTest, BelievesAnyCatalogueVersionUntilTheCoordinatorAnswers) {
  EXPECT_TRUE(context.CatalogueWanted(CatalogueVersion(2)));
  context.OnWantCatalogue([](CatalogueVersion version) { return version == CatalogueVersion(1); });
  EXPECT_TRUE(context.CatalogueWanted(CatalogueVersion(1)));
  EXPECT_FALSE(context.CatalogueWanted(CatalogueVersion(2)));
}

}  // namespace
}  // namespace paceline::shard
