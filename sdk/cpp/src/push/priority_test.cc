// Priorities: what goes first, and which numbers that gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeStream;
using ::testing::IsEmpty;

struct PriorityTest : ::testing::Test {
  PriorityTest() {
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 2}, Ssp{.staleness = 3}).value();
    loose = h.OpenTable("a", {.dim = 2}, Asp{}).value();
  }

  // A key of `segment`.
  uint64_t KeyIn(uint32_t segment) const { return KeyIn(segment, *table); }
  static uint64_t KeyIn(uint32_t segment, const TableInfo& of) {
    for (uint64_t key = 0;; ++key) {
      if (of.placement.Of(key).v == segment) return key;
    }
  }
  void PushTo(uint32_t segment, float value, uint32_t priority) {
    h.Push(table, {KeyIn(segment)}, {value, value}, priority);
  }
  std::vector<PartNumber> Numbers(uint32_t segment) const {
    std::vector<PartNumber> numbers;
    for (const auto& entry : h.cluster.LogOf(segment)) numbers.push_back(entry.number);
    return numbers;
  }

  // The client's next frame on a stream, taken apart; the shard does not see it.
  struct Pushed {
    v1::PushRequest head;
    std::vector<wire::PartEntry> parts;
    std::string values;
  };
  static std::optional<Pushed> TakePush(FakeStream& stream) {
    auto bytes = stream.Take();
    if (!bytes.has_value()) return std::nullopt;
    auto frame = wire::Decode<v1::PushRequest>(*bytes).value();
    return Pushed{.head = frame.head,
                  .parts = wire::ParseParts(frame.head.parts()).value(),
                  .values = std::string(frame.values)};
  }
  struct Pulled {
    v1::PullRequest head;
    std::vector<wire::PartEntry> parts;
  };
  static std::optional<Pulled> TakePull(FakeStream& stream) {
    auto bytes = stream.Take();
    if (!bytes.has_value()) return std::nullopt;
    auto frame = wire::Decode<v1::PullRequest>(*bytes).value();
    return Pulled{.head = frame.head, .parts = wire::ParseParts(frame.head.parts()).value()};
  }
  // A stream to the primary of segment 0, beyond the hello. The push takes number 1 there.
  FakeStream& ConnectPush() {
    PushTo(0, 0, /*priority=*/0);
    h.Run();
    return h.PushStream(h.cluster.PrimaryOf(0));
  }
  FakeStream& ConnectPull() {
    h.Pull(loose, {KeyIn(0, *loose)});
    h.Run();
    return h.PullStream(h.cluster.PrimaryOf(0));
  }
  static void Refuse(FakeStream& stream, PartNumber number, uint64_t frame) {
    v1::PushReply reply;
    v1::Refusal* refusal = reply.add_refusals();
    refusal->set_reason(v1::Refusal::OVER_BUDGET);
    refusal->set_message("because");
    refusal->set_line(v1::LINE_ARRIVAL);
    refusal->set_number(number);
    refusal->set_frame(frame);
    refusal->set_expected(number);
    refusal->set_retry_after_ms(100);
    stream.Give(absl::Cord(reply.SerializeAsString()));
  }
  static void ServeZeros(FakeStream& stream, const Pulled& asked, PartNumber own) {
    wire::Frame<v1::PullReply> reply;
    reply.head.set_request(asked.head.request());
    std::string values;
    for (const wire::PartEntry& part : asked.parts) {
      wire::Certificate certificate;
      certificate.segment = part.segment;
      certificate.served = true;
      certificate.own = own;
      wire::Append(certificate, *reply.head.mutable_certificates());
      values.append(size_t{part.count} * 2 * sizeof(float), '\0');
    }
    reply.values = absl::Cord(values);
    stream.Give(wire::Encode(reply));
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table, loose;
};

// Segment, number and first value of each part.
using Sent = std::tuple<uint32_t, PartNumber, float>;
std::vector<Sent> SentOf(const PriorityTest::Pushed& taken) {
  std::vector<Sent> sent;
  for (size_t i = 0; i < taken.parts.size(); ++i) {
    float first = 0;  // each part has one row of two values
    std::memcpy(&first, taken.values.data() + i * 2 * sizeof(float), sizeof(first));
    sent.emplace_back(taken.parts[i].segment.v, taken.parts[i].number, first);
  }
  return sent;
}

TEST_F(PriorityTest, TheMoreUrgentGoesFirstWithinALineToo) {
  FakeStream& stream = ConnectPush();
  PushTo(0, 1, /*priority=*/5);
  PushTo(2, 2, /*priority=*/1);
  PushTo(0, 3, /*priority=*/0);
  std::vector<Sent> order;
  while (auto taken = TakePush(stream)) {
    for (const Sent& sent : SentOf(*taken)) order.push_back(sent);
  }
  EXPECT_EQ(order, (std::vector<Sent>{{0, 2, 3}, {2, 1, 2}, {0, 3, 1}}));
}

TEST_F(PriorityTest, ANumberThatWasSentIsKeptThroughABreakAndNotOvertaken) {
  FakeStream& stream = ConnectPush();
  PushTo(0, 1, /*priority=*/5);
  PushTo(0, 2, /*priority=*/6);
  EXPECT_EQ(SentOf(*TakePush(stream)), (std::vector<Sent>{{0, 2, 1}}));
  stream.Break();  // the other one was never sent
  PushTo(0, 3, /*priority=*/1);
  h.Advance(absl::Seconds(2));
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2, 3, 4}));
  EXPECT_EQ(h.cluster.Row(0, table->id.v, KeyIn(0)), (std::vector<float>{6, 6}));
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PriorityTest, ARefusedPartKeepsItsNumber) {
  FakeStream& stream = ConnectPush();
  PushTo(0, 1, /*priority=*/5);
  ASSERT_EQ(SentOf(*TakePush(stream)), (std::vector<Sent>{{0, 2, 1}}));
  Refuse(stream, 2, /*frame=*/2);
  PushTo(0, 3, /*priority=*/1);
  EXPECT_FALSE(TakePush(stream).has_value()) << "the line is held";
  h.clock.now += absl::Seconds(1);
  h.Enter([&] { h.core->OnTime(); });
  EXPECT_EQ(SentOf(*TakePush(stream)), (std::vector<Sent>{{0, 2, 1}}));
  EXPECT_EQ(SentOf(*TakePush(stream)), (std::vector<Sent>{{0, 3, 3}}));
}

TEST_F(PriorityTest, ATickCountsPartsThatWaitWithoutANumber) {
  FakeStream& stream = ConnectPush();
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  PushTo(0, 1, /*priority=*/5);
  ASSERT_EQ(SentOf(*TakePush(stream)), (std::vector<Sent>{{0, 2, 1}}));
  Refuse(stream, 2, /*frame=*/3);
  PushTo(0, 2, /*priority=*/7);
  ASSERT_THAT(h.Tick(), IsOk());
  PushTo(0, 3, /*priority=*/0);  // of the next clock: it does not go ahead of those
  const Pushed tick = TakePush(stream).value();
  ASSERT_TRUE(tick.head.has_tick());
  EXPECT_EQ(tick.head.tick().clock(), 2u);
  bool sealed = false;
  const std::vector<wire::Seal> seals = wire::ParseSeals(tick.head.tick().seals()).value();
  for (const wire::Seal& seal : seals) {
    sealed = sealed || (seal.segment.v == 0 && seal.line == Line::kArrival && seal.number == 3);
  }
  EXPECT_TRUE(sealed) << "both parts of clock 1, though the line is held";
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2, 3, 4}));
  EXPECT_EQ(h.cluster.LogOf(0)[3].clock, 2u);
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PriorityTest, AReadWaitsUntilTheCallersPartsHaveNumbers) {
  FakeStream& stream = ConnectPull();
  h.Push(loose, {KeyIn(0, *loose)}, {1, 1});
  h.Run();
  FakeStream& pushes = h.PushStream(0);
  h.Push(table, {KeyIn(0)}, {1, 1}, /*priority=*/5);
  auto own = h.Pull(table, {KeyIn(0)});
  auto other = h.Pull(loose, {KeyIn(0, *loose)});
  EXPECT_EQ(TakePull(stream)->head.table(), loose->id.v) << "it has no part there that it must see";
  EXPECT_FALSE(TakePull(stream).has_value());
  h.Push(table, {KeyIn(0)}, {1, 1}, /*priority=*/2);  // after the read, and ahead of the part it waits for
  ASSERT_TRUE(pushes.Take().has_value());
  EXPECT_FALSE(TakePull(stream).has_value());
  ASSERT_TRUE(pushes.Take().has_value());
  const Pulled asked = TakePull(stream).value();
  EXPECT_EQ(asked.parts[0].number, 3u);
  ServeZeros(stream, asked, /*own=*/3);
  EXPECT_THAT(own->status.value(), IsOk());
}

TEST_F(PriorityTest, RowsThatComeBackWithAPushHoldThePushesBeforeIt) {
  h.Push(table, {KeyIn(0)}, {1, 1}, /*priority=*/5);
  h.Push(table, {KeyIn(1)}, {1, 1}, /*priority=*/5);
  auto read = h.Pull(table, {KeyIn(0)});
  auto both = h.PushPull(table, {KeyIn(0)}, {2, 2});
  h.Run();
  ASSERT_TRUE(both->ended());
  EXPECT_THAT(*both->status, IsOk());
  EXPECT_THAT(both->rows, ElementsAre(3, 3));
  ASSERT_TRUE(read->ended());
  EXPECT_THAT(*read->status, IsOk());
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PriorityTest, APartOfAnEarlierClockIsNotOvertakenFromAnotherSegment) {
  FakeStream& stream = ConnectPush();
  PushTo(0, 1, /*priority=*/5);
  ASSERT_THAT(h.Tick(), IsOk());
  PushTo(2, 2, /*priority=*/0);  // the same shard's
  EXPECT_EQ(SentOf(*TakePush(stream)), (std::vector<Sent>{{0, 2, 1}}));
  const Pushed next = TakePush(stream).value();
  EXPECT_EQ(SentOf(next), (std::vector<Sent>{{2, 1, 2}}));
}

TEST_F(PriorityTest, ATickGivesNumbersToPartsThatReadsWaitFor) {
  FakeStream& stream = ConnectPull();
  h.Push(table, {KeyIn(0)}, {1, 1}, /*priority=*/5);
  h.Pull(table, {KeyIn(0)});
  EXPECT_FALSE(TakePull(stream).has_value());
  ASSERT_THAT(h.Tick(), IsOk());
  EXPECT_EQ(TakePull(stream)->parts[0].number, 1u);
}

TEST_F(PriorityTest, ATableOfLatePartsIsNotCached) {
  const uint64_t key = KeyIn(0);
  h.Push(table, {key}, {1, 1});
  h.Run();
  h.Read(table, {key});
  h.Run();
  EXPECT_THAT(h.Read(table, {key})->rows, ElementsAre(1, 1)) << "cached";
  h.Push(table, {key}, {2, 2}, /*priority=*/3);
  auto read = h.Read(table, {key});
  EXPECT_FALSE(read->ended());
  h.Run();
  EXPECT_THAT(read->rows, ElementsAre(3, 3));
  EXPECT_FALSE(h.Read(table, {key})->ended()) << "it asks again";
}

}  // namespace
}  // namespace paceline::sdk
