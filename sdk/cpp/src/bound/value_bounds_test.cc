#include "sdk/cpp/src/bound/value_bounds.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using paceline::testing::IsOk;
using paceline::testing::StatusIs;
using testing::CoreHarness;
using testing::FakeCluster;
using testing::FakeStream;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kKey = 7;

// A worker under Vap{2}, and what its row's shard says of rounds in the test's hands.
class ValueBoundsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    h.cluster.feature_level = 2;
    ASSERT_THAT(h.Open(), IsOk());
    Open(Vap{.v = 2});
  }
  void Open(Vap vap) {
    auto opened = h.OpenTable("t", {}, vap);
    ASSERT_THAT(opened, IsOk());
    table = *opened;
    home = table->placement.Of(kKey);
  }
  std::shared_ptr<FakeStream> Stream() {
    return h.dialer.Newest(FakeCluster::AddressOf(h.cluster.PrimaryOf(home.v)),
                           world::StreamKind::kSubscribe);
  }
  // What the client says of the row's segment next; nullopt: nothing.
  std::optional<wire::Reading> Said() {
    const auto bytes = Stream()->Take();
    if (!bytes.has_value()) return std::nullopt;
    const auto request = wire::Decode<v1::SubscribeRequest>(*bytes).value();
    if (request.head.has_hello()) {
      v1::SubscribeUpdate welcome;
      welcome.mutable_welcome()->set_feature_level(2);
      welcome.mutable_welcome()->set_cluster(h.cluster.id);
      welcome.mutable_welcome()->set_shard(h.cluster.PrimaryOf(home.v));
      welcome.mutable_welcome()->set_incarnation(1);
      Stream()->Give(absl::Cord(welcome.SerializeAsString()));
      return Said();
    }
    beat = request.head.beat();
    const auto readings = wire::ParseReadings(request.head.reading()).value();
    EXPECT_THAT(readings, SizeIs(1));
    EXPECT_EQ(readings[0].segment, home);
    return readings[0];
  }
  void Tell(wire::Round round) {
    round.segment = home;
    round.epoch = Epoch(1);
    v1::SubscribeUpdate update;
    wire::Append(round, *update.mutable_rounds());
    Stream()->Give(absl::Cord(update.SerializeAsString()));
  }
  void Push(float value) {
    h.Push(table, {kKey}, {value});
    h.Run();
  }
  bool Fits(float value) {
    const std::vector<float> values = {value};
    const auto batch = GroupKeys(*h.core->routes(), table->placement, 1, {kKey}, values, AllocateFresh);
    bool fits = false;
    h.Enter([&] { fits = h.core->bounds().Fits(*table, Weigh(*table, *batch)); });
    return fits;
  }
  uint64_t Version() const { return h.cluster.LogOf(home.v).size(); }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
  SegmentId home;
  uint64_t beat = 0;
};

TEST_F(ValueBoundsTest, AReadIsHandedOutOnceItsClientIsAReader) {
  Push(1);
  const auto read = h.Read(table, {kKey});
  h.Run();
  EXPECT_FALSE(read->ended()) << "the row is there, but the shard does not count this client yet";
  const auto said = Said();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->kind, wire::Reading::Kind::kJoins);
  const uint64_t retries = h.core->stats().retries;
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  ASSERT_TRUE(read->ended());
  EXPECT_THAT(*read->status, IsOk());
  EXPECT_EQ(read->rows[0], 1);
  EXPECT_EQ(h.core->stats().retries, retries);
  EXPECT_EQ(h.core->stats().rows_from_cache, 0u);
}

TEST_F(ValueBoundsTest, AValueOlderThanThePromiseIsPulledAgain) {
  Push(1);
  const auto read = h.Read(table, {kKey});
  h.Run();
  ASSERT_TRUE(Said().has_value());
  // The update was applied, and the round of its version told, before this client joined.
  Push(1);
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  EXPECT_FALSE(read->ended());
  h.Run();
  ASSERT_TRUE(read->ended());
  EXPECT_EQ(read->rows[0], 2);
  EXPECT_EQ(h.core->stats().rows_pulled, 1u) << "counted when it is handed out";
}

TEST_F(ValueBoundsTest, WithoutALeaseNothingIsHandedOut) {
  Push(1);
  auto read = h.Read(table, {kKey});
  h.Run();
  ASSERT_TRUE(Said().has_value());
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  EXPECT_TRUE(read->ended());
  h.Advance(ReadingLeases::kLease);
  read = h.Read(table, {kKey});
  h.Run();
  EXPECT_FALSE(read->ended());
  std::optional<wire::Reading> last;
  while (auto said = Said()) last = said;
  ASSERT_TRUE(last.has_value()) << "it has gone on to say that it reads";
  EXPECT_EQ(last->kind, wire::Reading::Kind::kReads);
  EXPECT_EQ(last->round, 1u);
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  EXPECT_TRUE(read->ended());
}

TEST_F(ValueBoundsTest, APullThatTakesLongerThanARoundIsHandedOutByPiece) {
  Push(1);
  uint64_t elsewhere = 0;
  const uint64_t shard = h.cluster.PrimaryOf(home.v);
  while (h.cluster.PrimaryOf(table->placement.Of(elsewhere).v) == shard) ++elsewhere;
  const auto read = h.Read(table, {kKey, elsewhere});
  h.Run();
  ASSERT_TRUE(Said().has_value());
  Push(1);
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  h.Run();
  EXPECT_FALSE(read->ended());
  EXPECT_EQ(h.core->stats().rows_pulled, 1u) << "it was asked for again, and is handed out";
  // The next round finds nothing that is too old for it.
  Push(1);
  Tell({.number = 2, .version = Lsn(Version())});
  h.Run();
  home = table->placement.Of(elsewhere);
  ASSERT_TRUE(Said().has_value());
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  h.Run();
  ASSERT_TRUE(read->ended());
  EXPECT_THAT(*read->status, IsOk());
  EXPECT_EQ(read->rows[0], 2);
  EXPECT_EQ(h.core->stats().rows_pulled, 2u) << "each once";
}

TEST_F(ValueBoundsTest, AWaitIsCountedOnceHoweverOftenARowIsPulled) {
  Push(1);
  const double before = h.core->stats().wait.total();
  const absl::Time began = h.clock.now;
  const auto read = h.Read(table, {kKey});
  h.Run();
  ASSERT_TRUE(Said().has_value());
  Push(1);
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  h.clock.now += ReadingLeases::kLease;
  h.Run();
  EXPECT_FALSE(read->ended()) << "it was pulled again, but the lease has run out";
  h.Advance(ReadingLeases::kBeat);
  while (Said().has_value()) {
  }
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  ASSERT_TRUE(read->ended());
  EXPECT_NEAR(h.core->stats().wait.total() - before, absl::ToDoubleSeconds(h.clock.now - began), 1e-6);
}

TEST_F(ValueBoundsTest, AReadThatNobodyCountsEndsAtItsDeadline) {
  const auto read = h.Pull(table, {kKey}, std::nullopt, 0, absl::Seconds(3));
  h.Advance(absl::Seconds(4));
  ASSERT_TRUE(read->ended());
  EXPECT_THAT(*read->status, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("value bound")));
}

TEST_F(ValueBoundsTest, APushCountsUntilAllHaveSeenIt) {
  EXPECT_TRUE(Fits(9)) << "alone";
  Push(1);
  EXPECT_TRUE(Fits(1));
  EXPECT_FALSE(Fits(1.5));
  Push(1);
  const auto said = Said();
  ASSERT_TRUE(said.has_value()) << "more than half of the bound is not seen";
  EXPECT_EQ(said->kind, wire::Reading::Kind::kNot);
  EXPECT_EQ(said->wish, 2u);
  EXPECT_FALSE(Fits(1)) << "committed is not seen";
  Tell({.seen = 1});
  EXPECT_TRUE(Fits(1));
  EXPECT_FALSE(Fits(1.5));
  Tell({.seen = 2});
  EXPECT_TRUE(Fits(9));
}

TEST_F(ValueBoundsTest, AWaitingPushAsksAndSaysForWhomItWaits) {
  Push(0.5);
  const std::vector<float> values = {1.75};
  const auto batch = GroupKeys(*h.core->routes(), table->placement, 1, {kKey}, values, AllocateFresh);
  const auto weighed = std::make_shared<const WeighedPush>(Weigh(*table, *batch));
  uint64_t id = 0;
  h.Enter([&] { id = h.core->bounds().Await(table, weighed); });
  h.Run();
  const auto said = Said();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->wish, 1u);
  Tell({.rank_plus_one = 3, .waits_for = SessionId(77)});
  EXPECT_EQ(h.core->bounds().WaitsFor(*table, *weighed), "worker 2 (session 77)");
  ASSERT_TRUE(h.core->bounds().Waits().has_value());
  EXPECT_THAT(h.core->bounds().Waits()->what, HasSubstr("value bound"));
  EXPECT_TRUE(h.core->bounds().Waits().has_value()) << "nothing was seen since";
  Tell({.seen = 1});
  EXPECT_FALSE(h.core->bounds().Waits().has_value());
  Push(1);
  EXPECT_TRUE(h.core->bounds().Waits().has_value()) << "it fitted, and another push has come before it";
  Tell({.seen = 2});
  EXPECT_FALSE(h.core->bounds().Waits().has_value());
  h.Enter([&] { h.core->bounds().EndAwait(id); });
}

TEST_F(ValueBoundsTest, AQuestionDoesNotGrowBeforeItIsAnswered) {
  Push(2);
  auto said = Said();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->wish, 1u);
  const std::vector<float> values = {1};
  const auto batch = GroupKeys(*h.core->routes(), table->placement, 1, {kKey}, values, AllocateFresh);
  const auto weighed = std::make_shared<const WeighedPush>(Weigh(*table, *batch));
  uint64_t id = 0;
  h.Enter([&] { id = h.core->bounds().Await(table, weighed); });
  Push(2);
  h.Advance(ReadingLeases::kBeat);
  said = Said();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->wish, 1u) << "the first push's answer may come at any moment";
  Tell({.seen = 1});
  h.Run();
  said = Said();
  ASSERT_TRUE(said.has_value()) << "the second push is still in its way";
  EXPECT_EQ(said->wish, 2u);
  Tell({.seen = 2});
  EXPECT_FALSE(h.core->bounds().Waits().has_value());
  h.Enter([&] { h.core->bounds().EndAwait(id); });
}

TEST_F(ValueBoundsTest, ADecayingBoundFollowsTheClock) {
  Open(Vap{.v = 2, .decay = true});
  Push(0.5);
  EXPECT_TRUE(Fits(1.5));
  for (int i = 0; i < 3; ++i) ASSERT_THAT(h.Tick(), IsOk());
  EXPECT_TRUE(Fits(0.5)) << "2 / √4";
  EXPECT_FALSE(Fits(0.75));
}

TEST_F(ValueBoundsTest, ABrokenStreamIsJoinedAndAskedAnew) {
  Push(2);
  auto read = h.Read(table, {kKey});
  h.Run();
  ASSERT_TRUE(Said().has_value());
  Tell({.number = 1, .version = Lsn(Version()), .beat = beat});
  ASSERT_TRUE(read->ended());
  Stream()->Break();
  h.Advance(absl::Seconds(1));
  std::optional<wire::Reading> said = Said();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->kind, wire::Reading::Kind::kJoins);
  EXPECT_EQ(said->wish, 1u);
}

TEST_F(ValueBoundsTest, WhatCannotBeBoundedIsRefused) {
  EXPECT_THAT(h.OpenTable("u", {}, Vap{}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Vap: v: 0")));
  table::Schema folded;
  folded.aggregated = true;
  EXPECT_THAT(h.OpenTable("f", folded, Vap{.v = 1}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("aggregated")));
}

}  // namespace
}  // namespace paceline::sdk
