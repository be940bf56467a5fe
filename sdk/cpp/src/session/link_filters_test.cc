// Filters of the link in the client: what is agreed is used, and each stream begins anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/filter/coder.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using filter::Filter;
using ::paceline::testing::IsOk;
using ::testing::Contains;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeStream;
using ::testing::IsEmpty;

struct NoObserver final : filter::Observer {
  void Filtered(Filter, uint64_t, uint64_t, absl::Duration) override {}
};

struct LinkFiltersTest : ::testing::Test {
  LinkFiltersTest() { EXPECT_THAT(h.Open(), IsOk()); }

  std::shared_ptr<const TableInfo> OpenWith(const filter::LinkFilters& filters) {
    absl::StatusOr<std::shared_ptr<const TableInfo>> table = absl::UnknownError("not opened");
    const v1::TableSchema proto = wire::ToProto(table::Schema{.dim = 2});
    h.Enter([&] {
      h.core->OpenTable(
          "w", &proto, Ssp{}, [&](auto result) { table = std::move(result); }, PushFilter(), filters);
    });
    h.Run();
    EXPECT_THAT(table, IsOk());
    return *table;
  }
  // The shard greets a new stream, and takes filters.
  v1::Hello Greet(FakeStream& stream) {
    const v1::Hello hello = Take(stream).head.hello();
    v1::PushReply reply;
    reply.mutable_welcome()->set_feature_level(2);
    reply.mutable_welcome()->set_frame_bytes_max(8 << 20);
    reply.mutable_welcome()->add_filters(1);
    reply.mutable_welcome()->set_key_list_bytes(1 << 20);
    reply.set_granted(1 << 20);
    stream.Give(absl::Cord(reply.SerializeAsString()));
    return hello;
  }
  static wire::Frame<v1::PushRequest> Take(FakeStream& stream) {
    const auto bytes = stream.Take();
    EXPECT_TRUE(bytes.has_value());
    return wire::Decode<v1::PushRequest>(bytes.value_or(absl::Cord())).value();
  }

  CoreHarness h{CoreHarness::Setup{}};
  NoObserver observer;
};

TEST_F(LinkFiltersTest, AShardThatTakesNoneGetsPlainKeysAndValues) {
  const auto table = OpenWith({.push = filter::FilterSet({Filter::kKeys, Filter::kInt8, Filter::kZstd}),
                               .pull = filter::FilterSet({Filter::kKeys, Filter::kF16})});
  for (int i = 0; i < 3; ++i) h.Push(table, {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  h.Run();
  const auto pulled = h.Pull(table, {2, 1});
  h.Run();
  ASSERT_TRUE(pulled->ended());
  EXPECT_THAT(*pulled->status, IsOk());
  EXPECT_THAT(pulled->rows, ElementsAre(9, 12, 3, 6));
  EXPECT_THAT(h.cluster.violations, IsEmpty());
  EXPECT_THAT(h.cluster.last_hello.reply_filters(), Contains(3));
}

TEST_F(LinkFiltersTest, ListsAreOfferedOnlyIfATableWantsThem) {
  const auto table = OpenWith({.push = filter::FilterSet({Filter::kDelta}), .pull = {}});
  h.Push(table, {1}, {1, 1});
  h.Run();
  EXPECT_THAT(h.cluster.last_hello.filters(), Contains(2));
  EXPECT_THAT(h.cluster.last_hello.filters(), ::testing::Not(Contains(1)));
}

TEST_F(LinkFiltersTest, RowsThatTheCacheKeepsForReadersWhoDifferAreNotRounded) {
  const auto rounded = OpenWith({.push = {}, .pull = filter::FilterSet({Filter::kF16})});
  const uint32_t shard = h.cluster.PrimaryOf(rounded->placement.Of(1).v);
  h.unreachable.insert(FakeCluster::AddressOf(shard));  // this test answers instead
  h.Pull(rounded, {1});
  FakeStream& stream = h.PullStream(shard);
  ASSERT_TRUE(stream.Take().has_value()) << "the hello";
  v1::PullReply reply;
  reply.mutable_welcome()->set_feature_level(2);
  reply.mutable_welcome()->set_frame_bytes_max(8 << 20);
  reply.mutable_welcome()->set_window_bytes(1 << 20);
  reply.mutable_welcome()->add_reply_filters(3);
  stream.Give(absl::Cord(reply.SerializeAsString()));
  const auto asked = [&] {
    const auto bytes = stream.Take();
    EXPECT_TRUE(bytes.has_value());
    return wire::Decode<v1::PullRequest>(bytes.value_or(absl::Cord())).value().head.filters();
  };
  EXPECT_THAT(asked(), ElementsAre(3));
  ASSERT_EQ(OpenWith({})->id, rounded->id);  // somebody else of this client, who reads all digits
  h.Pull(rounded, {1});
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(LinkFiltersTest, AListIsThatOfOnePushWhoeverWaitsBesideIt) {
  h.cluster.feature_level = 2;
  const auto table = OpenWith({.push = filter::FilterSet({Filter::kKeys}), .pull = {}});
  h.Push(table, {1}, {1, 1});
  h.Push(table, {1}, {2, 2});
  FakeStream& stream = h.PushStream(h.cluster.PrimaryOf(table->placement.Of(1).v));
  Greet(stream);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(wire::ParseParts(Take(stream).head.parts()).value().size(), 1u);
  }
}

// Nobody changes the keys of a list. This test does, to see that no stream looks at them again.
TEST_F(LinkFiltersTest, AListIsKnownByItsPlaceInBothDirections) {
  const auto table =
      OpenWith({.push = filter::FilterSet({Filter::kKeys}), .pull = filter::FilterSet({Filter::kKeys})});
  const uint32_t shard = h.cluster.PrimaryOf(table->placement.Of(1).v);
  h.unreachable.insert(FakeCluster::AddressOf(shard));  // this test answers instead
  const std::vector<uint64_t> keys = {1};
  const std::vector<float> values = {1, 1};
  std::vector<float> rows(2);
  const auto routes = h.core->routes();
  const auto listed = GroupListed(*routes, table->placement, 2, keys);
  const auto push = [&] {
    h.Enter([&] {
      h.core->Push({.table = table,
                    .batch = PushListed(*routes, *listed, values, /*reads_back=*/false, AllocateFresh),
                    .done = [](absl::Status) {}});
    });
  };
  const auto pull = [&] {
    h.Enter([&] {
      h.core->Pull({.table = table,
                    .batch = listed,
                    .timeout = absl::Seconds(10),
                    .sink = MakeReceiver(listed, rows.data(), [](absl::Status) {})},
                   std::nullopt);
    });
  };
  push();
  FakeStream& pushes = h.PushStream(shard);
  Greet(pushes);
  EXPECT_TRUE(Take(pushes).keys.StartsWith("\x01"));
  pull();
  FakeStream& pulls = h.PullStream(shard);
  ASSERT_TRUE(pulls.Take().has_value()) << "the hello";
  v1::PullReply reply;
  reply.mutable_welcome()->set_feature_level(2);
  reply.mutable_welcome()->set_frame_bytes_max(8 << 20);
  reply.mutable_welcome()->set_window_bytes(1 << 20);
  reply.mutable_welcome()->add_filters(1);
  reply.mutable_welcome()->set_key_list_bytes(1 << 20);
  pulls.Give(absl::Cord(reply.SerializeAsString()));
  const auto asked = [&] {
    return wire::Decode<v1::PullRequest>(pulls.Take().value_or(absl::Cord())).value();
  };
  EXPECT_TRUE(asked().keys.StartsWith("\x01"));
  StoreU64(2, listed->keys.get());
  push();
  EXPECT_TRUE(Take(pushes).keys.StartsWith("\x02"));
  pull();
  EXPECT_TRUE(asked().keys.StartsWith("\x02"));
}

TEST_F(LinkFiltersTest, WhatIsSentAgainOnANewStreamIsCodedAnew) {
  const auto table = OpenWith({.push = filter::FilterSet({Filter::kKeys}), .pull = {}});
  const uint32_t shard = h.cluster.PrimaryOf(table->placement.Of(1).v);
  h.unreachable.insert(FakeCluster::AddressOf(shard));  // this test answers instead
  h.Push(table, {1}, {1, 1});
  h.Push(table, {1}, {2, 2});
  for (int time = 0; time < 2; ++time) {
    FakeStream& stream = h.PushStream(shard);
    EXPECT_THAT(Greet(stream).filters(), Contains(1));
    filter::KeyDecoder decoder(h.clock, observer);
    decoder.Begin(1 << 20);
    for (uint64_t number = 1; number <= 2; ++number) {
      wire::Frame<v1::PushRequest> frame = Take(stream);
      EXPECT_EQ(wire::ParseParts(frame.head.parts()).value().at(0).number, number);
      EXPECT_THAT(frame.head.filters(), ElementsAre(1));
      EXPECT_TRUE(frame.keys.StartsWith(number == 1 ? "\x01" : "\x02"));
      ASSERT_THAT(decoder.Decode({Filter::kKeys}, 1, 8, frame.keys), IsOk());
      EXPECT_EQ(LoadU64(frame.keys.Flatten().data()), 1u);
      EXPECT_EQ(frame.values.size(), 8u);
    }
    stream.Break();
    h.Advance(absl::Seconds(2));
  }
}

}  // namespace
}  // namespace paceline::sdk
