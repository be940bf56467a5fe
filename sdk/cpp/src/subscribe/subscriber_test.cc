#include "sdk/cpp/src/subscribe/subscriber.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using paceline::testing::IsOk;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeStream;

constexpr uint64_t kKey = 7;

// A worker that reads one row under ESSP(4), and the shard that has it, in the test's hands.
class SubscriberTest : public ::testing::Test {
 protected:
  void SetUp() override {
    h.cluster.feature_level = level;
    ASSERT_THAT(h.Open(), IsOk());
    auto opened = h.OpenTable("t", {}, model);
    ASSERT_THAT(opened, IsOk());
    table = *opened;
    home = table->placement.Of(kKey);
    h.Push(table, {kKey}, {1});
    h.Run();
    EXPECT_EQ(Read(), 1);
  }
  std::shared_ptr<FakeStream> Stream() {
    return h.dialer.Newest(FakeCluster::AddressOf(h.cluster.PrimaryOf(home.v)),
                           world::StreamKind::kSubscribe);
  }
  size_t Streams() const {
    return static_cast<size_t>(
        std::count_if(h.dialer.streams.begin(), h.dialer.streams.end(),
                      [](const auto& stream) { return stream->kind == world::StreamKind::kSubscribe; }));
  }
  float Read() {
    const auto read = h.Read(table, {kKey});
    h.Run();
    EXPECT_TRUE(read->ended());
    return read->rows[0];
  }
  // The client's next frame; nullopt: it has none.
  std::optional<wire::Frame<v1::SubscribeRequest>> Take() {
    const auto bytes = Stream()->Take();
    if (!bytes.has_value()) return std::nullopt;
    return wire::Decode<v1::SubscribeRequest>(*bytes).value();
  }
  // Welcomes the client, and takes the change by which its row joins.
  v1::SubscribeRequest Welcome() {
    const auto hello = Take();
    EXPECT_TRUE(hello.has_value() && hello->head.has_hello());
    EXPECT_FALSE(Take().has_value()) << "nothing before the welcome";
    v1::SubscribeUpdate welcome;
    welcome.mutable_welcome()->set_feature_level(2);
    welcome.mutable_welcome()->set_cluster(h.cluster.id);
    welcome.mutable_welcome()->set_shard(h.cluster.PrimaryOf(home.v));
    welcome.mutable_welcome()->set_incarnation(1);
    Stream()->Give(absl::Cord(welcome.SerializeAsString()));
    const auto change = Take();
    EXPECT_TRUE(change.has_value());
    EXPECT_EQ(wire::ParseParts(change->head.parts())->at(0).segment, home);
    EXPECT_EQ(LoadU64(std::string(change->keys).data()), kKey);
    EXPECT_FALSE(Take().has_value());
    return change->head;
  }
  // An update of the row's set: the row has this value, or has not changed.
  void Update(uint64_t number, uint64_t after, uint64_t version, Clock min_clock, uint64_t set,
              std::optional<float> value = std::nullopt, std::optional<uint32_t> count = std::nullopt,
              std::optional<uint32_t> left_out = std::nullopt) {
    wire::Frame<v1::SubscribeUpdate> update;
    const auto u64 = [](uint64_t n) {
      std::string packed(sizeof(n), 0);
      StoreU64(n, packed.data());
      return packed;
    };
    update.head.set_number(number);
    update.head.set_table(table->id.v);
    wire::Append(wire::Certificate{home, true, Epoch(1), Lsn(0), Lsn(version), min_clock, PartNumber(1)},
                 *update.head.mutable_certificates());
    update.head.set_after(u64(after));
    update.head.set_sets(u64(set));
    std::string packed(sizeof(uint32_t), 0);
    StoreU32(count.value_or(value.has_value() ? 1 : 0), packed.data());
    update.head.set_changes(packed);
    if (value.has_value()) {
      update.keys = absl::Cord(u64(kKey));
      std::string bytes(sizeof(float), 0);
      StoreF32(*value, bytes.data());
      update.values = absl::Cord(bytes);
    }
    if (left_out.has_value()) {  // so many keys, of which one is there: that of the row
      update.head.set_left_out(u64(kKey));
      StoreU32(*left_out, packed.data());
      update.head.set_left_out_counts(packed);
    }
    Stream()->Give(wire::Encode(update));
  }
  void Tick(int times) {
    for (int i = 0; i < times; ++i) EXPECT_THAT(h.Tick(), IsOk());
    h.Run();
  }
  // A record in the row's segment that changes no value.
  void Touch() {
    h.Push(table, {kKey}, {0});
    h.Run();
  }
  uint64_t Version() const { return h.cluster.LogOf(home.v).size(); }

  uint32_t level = 2;
  Essp model{.staleness = 4};
  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
  SegmentId home;
};

TEST_F(SubscriberTest, ARowThatWasReadIsServedAsItWasToldOf) {
  const v1::SubscribeRequest change = Welcome();
  EXPECT_EQ(change.table(), table->id.v);
  EXPECT_EQ(change.set(), 1u);
  EXPECT_EQ(change.every(), 2u) << "half of the bound";
  EXPECT_FALSE(change.leave());
  Tick(6);
  Update(1, Version(), Version() + 3, 6, change.set(), 5.0f);
  const auto confirmation = Take();
  ASSERT_TRUE(confirmation.has_value());
  EXPECT_EQ(confirmation->head.confirmed(), 1u);
  EXPECT_EQ(confirmation->head.set(), 0u);
  const uint64_t pulled = h.core->stats().rows_pulled;
  EXPECT_EQ(Read(), 5);
  EXPECT_EQ(h.core->stats().rows_pulled, pulled) << "without a round trip";
  EXPECT_EQ(h.core->stats().rows_refreshed, 1u);
  Tick(4);
  EXPECT_EQ(Read(), 5) << "within the bound";
  EXPECT_EQ(h.core->stats().rows_pulled, pulled);
  Tick(1);
  EXPECT_EQ(Read(), 1) << "beyond it the row is pulled";
  EXPECT_EQ(h.core->stats().rows_pulled, pulled + 1);
}

TEST_F(SubscriberTest, ABrokenStreamIsOpenedAgainWhenARowIsRead) {
  const v1::SubscribeRequest change = Welcome();
  Update(1, Version(), Version(), 1, change.set());
  Stream()->Break();
  h.Advance(absl::Seconds(10));
  EXPECT_EQ(Streams(), 1u) << "nothing to say";
  Tick(6);
  Touch();
  EXPECT_EQ(Read(), 1);
  EXPECT_EQ(Streams(), 2u);
  const v1::SubscribeRequest again = Welcome();
  EXPECT_GT(again.set(), change.set()) << "it joins anew";
}

TEST_F(SubscriberTest, AShardThatKnowsNoSuchStreamIsNotAskedAgain) {
  Stream()->Break(absl::UnimplementedError("no such method"));
  Tick(6);
  EXPECT_EQ(Read(), 1);
  h.Advance(absl::Seconds(30));
  EXPECT_EQ(Streams(), 1u);
  EXPECT_THAT(h.core->failure(), IsOk());
}

TEST_F(SubscriberTest, ARefusedSetIsPulled) {
  const v1::SubscribeRequest change = Welcome();
  v1::SubscribeUpdate refused;
  refused.set_table(table->id.v);
  v1::Refusal* refusal = refused.add_refusals();
  refusal->set_reason(v1::Refusal::UNAVAILABLE);
  refusal->set_segment(home.v);
  refusal->set_number(change.set());
  Stream()->Give(absl::Cord(refused.SerializeAsString()));
  EXPECT_FALSE(Take().has_value());
  Tick(6);
  Update(1, Version(), Version(), 6, change.set());
  Touch();
  (void)Take();
  const uint64_t pulled = h.core->stats().rows_pulled;
  EXPECT_EQ(Read(), 1);
  EXPECT_EQ(h.core->stats().rows_pulled, pulled + 1);
  const auto again = Take();
  ASSERT_TRUE(again.has_value());
  EXPECT_GT(again->head.set(), change.set());
}

TEST_F(SubscriberTest, AnUpdateThatDoesNotFitBreaksTheRules) {
  const v1::SubscribeRequest change = Welcome();
  Update(1, Version(), Version() + 1, 1, change.set(), /*value=*/1.0f, /*count=*/2);
  EXPECT_EQ(h.core->failure().code(), absl::StatusCode::kInternal);
}

struct BudgetTest : SubscriberTest {
  BudgetTest() { model.budget_bytes = 1 << 20; }
};

TEST_F(BudgetTest, EachSegmentHasItsShareAndWhatIsLeftOutIsPulled) {
  const v1::SubscribeRequest change = Welcome();
  EXPECT_EQ(change.budget(), (1 << 20) / h.cluster.SegmentCount());
  Tick(6);
  Update(1, Version(), Version() + 3, 6, change.set(), std::nullopt, std::nullopt, /*left_out=*/1);
  const uint64_t pulled = h.core->stats().rows_pulled;
  EXPECT_EQ(Read(), 1);
  EXPECT_EQ(h.core->stats().rows_pulled, pulled + 1) << "it is not as new as the update";
  EXPECT_THAT(h.core->failure(), IsOk());
}

TEST_F(BudgetTest, MoreLeftOutThanNamedBreaksTheRules) {
  const v1::SubscribeRequest change = Welcome();
  Update(1, Version(), Version() + 1, 1, change.set(), std::nullopt, std::nullopt, /*left_out=*/2);
  EXPECT_EQ(h.core->failure().code(), absl::StatusCode::kInternal);
}

struct LevelOneTest : SubscriberTest {
  LevelOneTest() { level = 1; }
};

TEST_F(LevelOneTest, WithShardsOfLevelOneRowsArePulled) {
  EXPECT_EQ(Streams(), 0u);
  Tick(6);
  EXPECT_EQ(Read(), 1);
  h.Advance(absl::Seconds(10));
  EXPECT_EQ(Streams(), 0u);
}

}  // namespace
}  // namespace paceline::sdk
