// What is held back of pushes: when it is sent, who sees it, and that it is neither lost nor sent twice.
#include "sdk/cpp/src/push/filter/push_filters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeCluster;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct PushFiltersTest : ::testing::Test {
  PushFiltersTest() {
    h.cluster.feature_level = 2;
    EXPECT_THAT(h.Open(), IsOk());
  }

  std::shared_ptr<const TableInfo> Open(const PushFilter& filter, const std::string& name = "w",
                                        uint32_t dim = 1, Consistency consistency = Ssp{}) {
    table::Schema schema;
    schema.dim = dim;
    if (filter.precision != PushPrecision::kF32)
      schema.rule = Sgd{.lr = 1};  // which the shards here add, too
    auto table = h.OpenTable(name, schema, consistency, filter);
    EXPECT_THAT(table, IsOk());
    return *table;
  }
  // The updates that shards have of the table, by key, in the order in which they came.
  std::map<uint64_t, std::vector<float>> Logged(const TableInfo& table) {
    h.Run();
    std::map<uint64_t, std::vector<float>> logged;
    for (uint32_t segment = 0; segment < h.cluster.SegmentCount(); ++segment) {
      for (const FakeCluster::Entry& entry : h.cluster.LogOf(segment)) {
        if (entry.table != table.id.v) continue;
        for (size_t i = 0; i < entry.keys.size(); ++i) logged[entry.keys[i]].push_back(entry.values[i]);
      }
    }
    return logged;
  }
  uint64_t Held() { return h.core->stats().push_filter.rows_held; }

  CoreHarness h;
};

using Sent = std::map<uint64_t, std::vector<float>>;

TEST_F(PushFiltersTest, TheLargestRowsAreSentAndTheOthersGoWithTheirNext) {
  const auto table = Open({.top_k = 0.5});
  const auto first = h.Push(table, {1, 2, 3, 4}, {4, -8, 1, 9});
  EXPECT_EQ(Logged(*table), (Sent{{2, {-8}}, {4, {9}}}));
  EXPECT_THAT(first->status, ::testing::Optional(IsOk()));
  h.Push(table, {1, 3}, {4, 5});
  EXPECT_EQ(Logged(*table), (Sent{{1, {8}}, {2, {-8}}, {4, {9}}})) << "by what is due: 8 and 6";
  EXPECT_EQ(Held(), 1u);
  const auto flushed = h.Flush();
  EXPECT_EQ(Logged(*table), (Sent{{1, {8}}, {2, {-8}}, {3, {6}}, {4, {9}}}));
  EXPECT_THAT(flushed->status, ::testing::Optional(IsOk()));
  EXPECT_EQ(Held(), 0u);
}

TEST_F(PushFiltersTest, APushOfWhichNothingIsSentEndsAtOnce) {
  const auto table = Open({.significant = 10});
  const auto pushed = h.Push(table, {1, 2}, {3, -4});
  EXPECT_THAT(pushed->status, ::testing::Optional(IsOk())) << "before anything has moved";
  EXPECT_THAT(Logged(*table), IsEmpty());
  h.Push(table, {1, 2}, {6, -6});
  EXPECT_EQ(Logged(*table), (Sent{{2, {-10}}}));
}

TEST_F(PushFiltersTest, AThresholdThatDecaysGoesByTheWorkersClock) {
  const auto table = Open({.significant = 10, .decays = true});
  h.Push(table, {1}, {6});
  for (int clock = 0; clock < 3; ++clock) ASSERT_THAT(h.Tick(), IsOk());
  h.Push(table, {2, 3}, {5, 4});
  EXPECT_EQ(Logged(*table), (Sent{{2, {5}}})) << "10 / √4";
}

TEST_F(PushFiltersTest, WhatIsSkippedIsHeld) {
  const auto table = Open({.skip = 0.5});
  std::map<uint64_t, float> given, sent;
  for (int push = 0; push < 50; ++push) {
    for (uint64_t key = 0; key < 8; ++key) given[key] += static_cast<float>(push);
    h.Push(table, {0, 1, 2, 3, 4, 5, 6, 7}, std::vector<float>(8, static_cast<float>(push)));
  }
  const uint64_t rows = h.core->stats().push_filter.rows_sent;
  EXPECT_GT(rows, 120u);
  EXPECT_LT(rows, 280u);
  EXPECT_GT(Held(), 0u);
  h.Flush();
  for (const auto& [key, values] : Logged(*table)) {
    for (const float value : values) sent[key] += value;
  }
  EXPECT_EQ(sent, given);
}

TEST_F(PushFiltersTest, RoundsAndHoldsTheRest) {
  const auto table = Open({.precision = PushPrecision::kInt8});
  h.Push(table, {1}, {1000.5f});  // steps of 8
  EXPECT_EQ(Logged(*table), (Sent{{1, {1000}}}));
  EXPECT_EQ(Held(), 1u);
  h.Push(table, {1}, {0.75f});
  EXPECT_EQ(Logged(*table), (Sent{{1, {1000, 1.25f}}})) << "with the half that was left";
  EXPECT_EQ(Held(), 0u);
}

TEST_F(PushFiltersTest, WhatIsRoundedToNothingIsHeldAsAWhole) {
  const auto table = Open({.precision = PushPrecision::kF16});
  h.Push(table, {1, 2}, {1e-10f, 1});
  EXPECT_EQ(Logged(*table), (Sent{{2, {1}}}));
  h.Push(table, {2}, {0});
  EXPECT_EQ(Logged(*table), (Sent{{2, {1, 0}}})) << "a 0 that was given is sent";
  h.Flush();
  EXPECT_EQ(Logged(*table), (Sent{{1, {1e-10f}}, {2, {1, 0}}})) << "what is held is not rounded again";
}

TEST_F(PushFiltersTest, ARowThatIsNamedTwiceIsLostInNeither) {
  const auto table = Open({.significant = 100});
  h.Push(table, {1, 1, 1}, {1, 2, 4});
  h.Push(table, {1, 1}, {8, 16});
  h.Flush();
  EXPECT_EQ(Logged(*table), (Sent{{1, {31}}}));
}

TEST_F(PushFiltersTest, WithoutRoomRowsAreSent) {
  const auto table = Open({.significant = 100, .held_bytes_max = 2 * 36});
  h.Push(table, {1, 2, 3}, {1, 2, 3});
  EXPECT_THAT(Logged(*table), SizeIs(1)) << "the one that came last, in the order of segments";
  EXPECT_EQ(h.core->stats().push_filter.bytes_held, 2u * 36);
}

TEST_F(PushFiltersTest, WhatIsNotFiniteIsSent) {
  const auto table = Open({.significant = 100});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  h.Push(table, {1}, {1});
  h.Push(table, {1}, {kInfinity});
  EXPECT_EQ(Logged(*table), (Sent{{1, {kInfinity}}}));
  h.Flush();
  EXPECT_EQ(Logged(*table), (Sent{{1, {kInfinity, 1}}}));
}

TEST_F(PushFiltersTest, OwnReadsSeeWhatIsSent) {
  const auto table = Open({.significant = 10}, "w", 1, Ssp{.staleness = 4});
  h.Push(table, {1, 2}, {20, 3});
  auto read = h.Read(table, {1, 2});
  h.Run();
  EXPECT_THAT(read->rows, ElementsAre(20, 0));
  h.Push(table, {1, 2}, {1, 4});
  read = h.Read(table, {1, 2});
  h.Run();
  EXPECT_THAT(read->rows, ElementsAre(20, 0)) << "of the cache too";
  h.Flush();
  read = h.Read(table, {1, 2});
  h.Run();
  EXPECT_THAT(read->rows, ElementsAre(21, 7));
}

TEST_F(PushFiltersTest, FinishSendsItBeforeTheLastTick) {
  const auto table = Open({.significant = 10});
  h.Push(table, {1}, {3});
  ASSERT_THAT(h.Tick(), IsOk());
  const auto finished = h.Finish();
  EXPECT_EQ(Logged(*table), (Sent{{1, {3}}}));
  EXPECT_THAT(finished->status, ::testing::Optional(IsOk()));
  ASSERT_EQ(h.coordinator.finishes.size(), 1u);
  EXPECT_FALSE(h.coordinator.finishes[0].seals().empty()) << "it seals the part";
}

TEST_F(PushFiltersTest, CloseSendsItToo) {
  const auto table = Open({.significant = 10});
  h.Push(table, {1}, {3});
  h.Enter([&] { h.core->Close("done", absl::Seconds(1), [](const absl::Status&) {}); });
  EXPECT_EQ(Held(), 0u);
  EXPECT_EQ(h.core->unacknowledged_bytes(), 12u);
}

TEST_F(PushFiltersTest, ATickSendsNothing) {
  const auto table = Open({.significant = 10});
  h.Push(table, {1}, {3});
  ASSERT_THAT(h.Tick(), IsOk());
  EXPECT_THAT(Logged(*table), IsEmpty());
  EXPECT_EQ(Held(), 1u);
}

TEST_F(PushFiltersTest, AResendHasTheSameRows) {
  const auto table = Open({.skip = 0.5, .precision = PushPrecision::kBf16});
  for (int push = 0; push < 10; ++push) h.Push(table, {0, 1, 2, 3}, {1, 1, 1, 1});
  h.Run();  // there are streams
  for (int push = 0; push < 20; ++push) h.Push(table, {0, 1, 2, 3}, {1.001f, 2.002f, 3.003f, 4.004f});
  const PushFilterStats before = h.core->stats().push_filter;
  for (size_t i = 0, n = h.dialer.streams.size(); i < n; ++i) {
    if (h.dialer.streams[i]->open()) h.dialer.streams[i]->Break();
  }
  h.Advance(absl::Seconds(5));
  EXPECT_EQ(h.core->stats().push_filter.rows_sent, before.rows_sent) << "the filter has not seen it again";
  EXPECT_GT(h.core->stats().breaks, 0u);
  h.Flush();
  double sum = 0;
  for (const auto& [key, values] : Logged(*table)) {
    for (const float value : values) sum += value;
  }
  EXPECT_NEAR(sum, 40 + 20 * 10.01, 1e-3);
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PushFiltersTest, APushThatBringsItsRowsBackIsSentAsItIs) {
  const auto table = Open({.significant = 10});
  h.Push(table, {1}, {3});
  const auto read = h.PushPull(table, {1}, {2});
  EXPECT_EQ(Logged(*table), (Sent{{1, {2}}}));
  EXPECT_THAT(read->status, ::testing::Optional(IsOk()));
  EXPECT_EQ(Held(), 1u);
}

TEST_F(PushFiltersTest, RangesThatAreSentAsAWholeStayRanges) {
  table::Schema schema;
  schema.kind = table::Kind::kRanged;
  schema.rows = 100;
  schema.rule = Sgd{};
  const auto table = h.OpenTable("r", schema, Ssp{}, {.precision = PushPrecision::kInt8}).value();
  std::vector<uint32_t> entries;
  h.core->filters().on_sent = [&](const TableInfo&, const Batch& batch) {
    EXPECT_TRUE(batch.ranges);
    entries.push_back(batch.rows);
  };
  h.PushRange(table, 10, std::vector<float>(50, 3.0f));
  EXPECT_THAT(entries, ElementsAre(50));
  const auto some = h.OpenTable("r", schema, Ssp{}, {.top_k = 0.1}).value();
  h.core->filters().on_sent = [&](const TableInfo&, const Batch& batch) {
    EXPECT_FALSE(batch.ranges);
    EXPECT_EQ(batch.rows, 5u);
  };
  h.PushRange(some, 10, std::vector<float>(50, 3.0f));
  EXPECT_EQ(Held(), 45u) << "one client has one account of a table";
}

TEST_F(PushFiltersTest, TheCoordinatorIsTold) {
  (void)Open({});
  EXPECT_FALSE(h.coordinator.tables_opened.back().holds_back());
  (void)Open({.top_k = 0.1});
  EXPECT_TRUE(h.coordinator.tables_opened.back().holds_back());
}

TEST_F(PushFiltersTest, OneThatDoesNotKnowOfItIsRefused) {
  h.coordinator.knows_filters = false;
  table::Schema schema;
  schema.rule = Sgd{};
  EXPECT_THAT(h.OpenTable("w", schema, Ssp{}, {.top_k = 0.1}).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("push_filter: a filter needs")));
}

TEST_F(PushFiltersTest, AnUnsuitableTableIsRefusedByName) {
  table::Schema schema;
  schema.aggregated = true;
  EXPECT_THAT(h.OpenTable("folded", schema, Bsp{}, {.top_k = 0.1}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("table 'folded': push_filter: ")));
}

}  // namespace
}  // namespace paceline::sdk
