// Aggregated tables and bulk synchronous reads, as the client sees to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::CoreHarness;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kOther = 99;  // another worker, in the test's hands
constexpr Clock kStart = 10;

struct AggregatedTest : ::testing::Test {
  explicit AggregatedTest(uint32_t workers = 1)
      : h({.ring_bits = 1, .shards = 2, .workers = workers, .start_clock = kStart}) {
    EXPECT_THAT(h.Open(), IsOk());
    h.cluster.OpenSession(kOther);
    h.cluster.Join(kOther, kStart);
    h.cluster.Join(h.coordinator.session, kStart);
    folded = h.OpenTable("folded", {.dim = 1, .aggregated = true}, Bsp{}).value();
    arrival = h.OpenTable("arrival", {.dim = 1}).value();
  }

  uint64_t KeyIn(const TableInfo& table, uint32_t segment) const {
    for (uint64_t key = 0;; ++key) {
      if (table.placement.Of(key).v == segment) return key;
    }
  }
  std::shared_ptr<CoreHarness::Outcome> Push(float value, uint32_t segment = 0) {
    return h.Push(folded, {KeyIn(*folded, segment)}, {value});
  }
  std::shared_ptr<CoreHarness::Outcome> Pull(uint32_t segment = 0) {
    return h.Pull(folded, {KeyIn(*folded, segment)});
  }
  void OtherTicks(Clock clock) {
    EXPECT_TRUE(h.cluster.Finish(kOther, clock, ""));  // with nothing left to apply it counts, and leaves
    h.cluster.Join(kOther, clock);
    h.Run();
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> folded, arrival;
};

TEST_F(AggregatedTest, APushEndsWithTheFoldAfterItsOwnAndTheOthersTick) {
  auto push = Push(1);
  h.Run();
  EXPECT_EQ(h.cluster.StagedIn(0), 1u);
  EXPECT_FALSE(push->ended());
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_FALSE(push->ended());
  OtherTicks(kStart + 1);
  EXPECT_THAT(push->status.value(), IsOk());
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(AggregatedTest, FlushWaitsForEarlierClocksOnly) {
  Push(1);
  auto flush = h.Flush();
  h.Run();
  EXPECT_THAT(flush->status.value(), IsOk()) << "its own tick would have to come first";
  auto arrived = h.Push(arrival, {1}, {1});
  h.cluster.auto_commit = false;
  flush = h.Flush();
  h.Run();
  EXPECT_FALSE(flush->ended());
  h.cluster.auto_commit = true;
  h.cluster.CommitAll();
  h.Run();
  EXPECT_THAT(flush->status.value(), IsOk());
  ASSERT_THAT(h.Tick(), IsOk());
  flush = h.Flush();
  h.Run();
  EXPECT_FALSE(flush->ended());
  OtherTicks(kStart + 1);
  EXPECT_THAT(flush->status.value(), IsOk());
}

TEST_F(AggregatedTest, BytesOfThisClockDoNotBlockUntilItsTick) {
  Push(1);
  EXPECT_GT(h.core->unacknowledged_bytes(), 0u);
  EXPECT_EQ(h.core->awaitable_bytes(), 0u);
  h.Push(arrival, {1}, {1});
  EXPECT_EQ(h.core->awaitable_bytes(), 12u);
  h.Run();
  ASSERT_THAT(h.Tick(), IsOk());
  EXPECT_EQ(h.core->awaitable_bytes(), 12u) << "now the others can make room";
  Push(1);
  EXPECT_EQ(h.core->awaitable_bytes(), 12u);
  OtherTicks(kStart + 1);
  EXPECT_EQ(h.core->awaitable_bytes(), 0u);
  EXPECT_EQ(h.core->unacknowledged_bytes(), 12u);
}

TEST_F(AggregatedTest, RefusedContentLeavesTheCountOfBytesRight) {
  h.cluster.judge = [](const v1::PushRequest&, const wire::PartEntry& part) -> std::optional<v1::Refusal> {
    if (part.count == 0) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::INVALID);
    return refusal;
  };
  auto push = Push(1);
  h.Run();
  EXPECT_THAT(push->status.value(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  EXPECT_EQ(h.core->awaitable_bytes(), 0u);
  h.cluster.judge = nullptr;
  ASSERT_THAT(h.Tick(), IsOk());
  Push(2);
  h.Run();
  OtherTicks(kStart + 2);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_EQ(h.cluster.Row(0, folded->id.v, KeyIn(*folded, 0)), std::vector<float>{2});
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  EXPECT_THAT(h.Flush()->status.value(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(AggregatedTest, AReadNamesItsClockAndNoOwnPart) {
  Push(1);
  h.Run();
  auto pull = Pull();
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_THAT(pull->rows, ElementsAre(0)) << "nothing of the clock that is under way";
  ASSERT_THAT(h.Tick(), IsOk());
  pull = Pull();
  h.Run();
  EXPECT_FALSE(pull->ended()) << "the other is a clock behind";
  OtherTicks(kStart + 1);
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_THAT(pull->rows, ElementsAre(1));
}

TEST_F(AggregatedTest, AReadStaysExactThoughItsTickIsAlreadyMade) {
  OtherTicks(kStart + 5);
  Push(1);
  h.Run();
  h.unreachable = {testing::FakeCluster::AddressOf(0)};  // what is asked of it takes a while
  auto pull = Pull(0);
  auto fast = Pull(1);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_THAT(fast->status.value(), IsOk());
  EXPECT_EQ(h.cluster.MinClock(0), kStart) << "no shard may hear of the tick";
  EXPECT_EQ(h.cluster.MinClock(1), kStart) << "not even one whose reads are answered";
  h.unreachable.clear();
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_THAT(pull->rows, ElementsAre(0));
  EXPECT_EQ(h.cluster.MinClock(0), kStart + 1) << "then all do";
  EXPECT_EQ(h.cluster.MinClock(1), kStart + 1);
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(AggregatedTest, TwoTicksBeyondAReadAreToldOneByOne) {
  OtherTicks(kStart + 5);
  h.unreachable = {testing::FakeCluster::AddressOf(0), testing::FakeCluster::AddressOf(1)};
  auto first = Pull();
  Push(1);
  ASSERT_THAT(h.Tick(), IsOk());
  auto second = Pull();
  Push(2);
  ASSERT_THAT(h.Tick(), IsOk());
  h.unreachable.clear();
  h.Run();
  EXPECT_THAT(first->status.value(), IsOk());
  EXPECT_THAT(first->rows, ElementsAre(0));
  EXPECT_THAT(second->status.value(), IsOk());
  EXPECT_THAT(second->rows, ElementsAre(1));
  EXPECT_EQ(h.cluster.MinClock(0), kStart + 2);
}

TEST_F(AggregatedTest, AnAnswerBeyondItsClockEndsTheClient) {
  auto pull = Pull();
  h.cluster.Join(h.coordinator.session, kStart + 1);  // as if somebody else had ticked for this worker
  OtherTicks(kStart + 1);
  EXPECT_THAT(pull->status.value(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("got values of min clock 11")));
}

TEST_F(AggregatedTest, FinishDoesNotWaitForItsOwnTick) {
  auto push = Push(1);
  h.Run();
  auto finish = h.Finish();
  h.Run();
  ASSERT_THAT(h.coordinator.finishes, SizeIs(1));
  EXPECT_EQ(h.coordinator.finishes[0].clock(), kStart);
  EXPECT_FALSE(finish->ended());
  OtherTicks(kStart + 1);
  EXPECT_THAT(finish->status.value(), IsOk());
  EXPECT_THAT(push->status.value(), IsOk()) << "whatever came first";
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  auto pull = Pull();
  h.Run();
  EXPECT_THAT(pull->rows, ElementsAre(1));
}

TEST_F(AggregatedTest, FinishReportsAPushThatWasRefusedMeanwhile) {
  h.unreachable = {testing::FakeCluster::AddressOf(0), testing::FakeCluster::AddressOf(1)};
  h.cluster.judge = [](const v1::PushRequest&, const wire::PartEntry& part) -> std::optional<v1::Refusal> {
    if (part.count == 0) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::INVALID);
    return refusal;
  };
  Push(1);
  auto finish = h.Finish();
  h.Run();
  h.unreachable.clear();
  h.Run();
  OtherTicks(kStart + 1);
  EXPECT_THAT(finish->status.value(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(AggregatedTest, FinishWaitsForExactReads) {
  OtherTicks(kStart + 3);
  h.unreachable = {testing::FakeCluster::AddressOf(0)};
  auto pull = Pull(0);
  auto finish = h.Finish();
  h.Run();
  EXPECT_THAT(h.coordinator.finishes, IsEmpty());
  h.unreachable.clear();
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_THAT(finish->status.value(), IsOk());
}

TEST_F(AggregatedTest, AFinishThatWaitsForReadsEndsAtItsDeadline) {
  h.unreachable = {testing::FakeCluster::AddressOf(0)};
  auto pull = Pull(0);
  auto finish = h.Finish(absl::Seconds(5));
  h.Advance(absl::Seconds(6));
  EXPECT_THAT(finish->status.value(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(h.Tick(), IsOk());
}

struct AggregatedReaderTest : AggregatedTest {
  AggregatedReaderTest() : AggregatedTest(/*workers=*/0) {}
};

TEST_F(AggregatedReaderTest, AClientWithoutAClockReadsButDoesNotPush) {
  auto push = Push(1);
  h.Run();
  EXPECT_THAT(push->status.value(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("workers")));
  auto pull = Pull();
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
}

}  // namespace
}  // namespace paceline::sdk
