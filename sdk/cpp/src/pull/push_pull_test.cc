// A push and its rows in one round trip, and what becomes of them when something goes wrong on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

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

struct PushPullTest : ::testing::Test {
  explicit PushPullTest(CoreHarness::Setup setup = {.start_clock = 10}) : h(setup) {
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 2}, Ssp{.staleness = 3}).value();
    tight = h.OpenTable("t", {.dim = 1}, Ssp{.staleness = 0}).value();
  }
  uint64_t KeyIn(uint32_t segment) const {
    for (uint64_t key = 0;; ++key) {
      if (table->placement.Of(key).v == segment) return key;
    }
  }
  bool Pulled() const {
    for (uint32_t shard = 0; shard < 2; ++shard) {
      if (h.dialer.Newest(FakeCluster::AddressOf(shard), world::StreamKind::kPull) != nullptr) return true;
    }
    return false;
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table, tight;
};

TEST_F(PushPullTest, TheRowsComeBackOnThePushStreams) {
  std::vector<uint64_t> keys(50);
  std::iota(keys.begin(), keys.end(), 0);
  keys.push_back(7);  // twice
  std::vector<float> values(2 * keys.size());
  std::iota(values.begin(), values.end(), 0.0f);
  auto first = h.PushPull(table, keys, values);
  h.Run();
  ASSERT_THAT(first->status.value(), IsOk());
  for (size_t i = 0; i < 50; ++i) {
    const float twice = i == 7 ? 100.0f : 0.0f;
    EXPECT_EQ(first->rows[2 * i], values[2 * i] + twice) << i;
    EXPECT_EQ(first->rows[2 * i + 1], values[2 * i + 1] + (i == 7 ? 101.0f : 0.0f)) << i;
  }
  EXPECT_EQ(first->rows[100], first->rows[14]);
  EXPECT_FALSE(Pulled());
  EXPECT_EQ(h.core->stats().rows_pulled, 51u);
  EXPECT_EQ(h.core->stats().bytes_pulled, 51u * 2 * 4);  // the keys travelled with the push
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PushPullTest, ManyAtOnceEachGetTheirOwn) {
  std::vector<std::shared_ptr<CoreHarness::Outcome>> outcomes;
  for (int i = 0; i < 20; ++i) outcomes.push_back(h.PushPull(table, {KeyIn(0), KeyIn(1)}, {1, 1, 1, 1}));
  h.Run();
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(outcomes[i]->status.value(), IsOk());
    EXPECT_GE(outcomes[i]->rows[0], static_cast<float>(i + 1));
  }
  EXPECT_FALSE(Pulled());
}

TEST_F(PushPullTest, TheyMakeCachedRowsFit) {
  auto pushed = h.PushPull(table, {KeyIn(0)}, {1, 2});
  h.Run();
  ASSERT_THAT(pushed->status.value(), IsOk());
  auto read = h.Read(table, {KeyIn(0)});
  ASSERT_TRUE(read->ended());  // at once
  EXPECT_THAT(read->rows, ElementsAre(1, 2));
  EXPECT_EQ(h.core->stats().rows_from_cache, 1u);
  EXPECT_FALSE(Pulled());
}

TEST_F(PushPullTest, RowsForTheNextClockComeAfterTheTick) {
  auto next = h.PushPull(tight, {1}, {5}, /*next_clock=*/true);
  auto other = h.PushPull(tight, {2}, {6});
  h.Run();
  EXPECT_FALSE(next->ended());
  EXPECT_THAT(other->status.value(), IsOk());  // not held up
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  ASSERT_THAT(next->status.value(), IsOk());
  EXPECT_THAT(next->rows, ElementsAre(5));
  // The next clock's read of it is served from the cache.
  auto read = h.Read(tight, {1});
  ASSERT_TRUE(read->ended());
  EXPECT_THAT(read->rows, ElementsAre(5));
  auto too_old = h.Read(tight, {2});
  EXPECT_FALSE(too_old->ended());
}

TEST_F(PushPullTest, ABreakBeforeTheReplyAsksForTheRowsAnew) {
  h.PushPull(table, {KeyIn(0)}, {1, 1});
  h.Run();
  // Held back by another worker: the part is committed long before its rows can come.
  h.cluster.Join(99, 10);
  for (int i = 0; i < 5; ++i) ASSERT_THAT(h.Tick(), IsOk());
  auto pushed = h.PushPull(table, {KeyIn(0)}, {1, 1});
  h.Run();
  EXPECT_FALSE(pushed->ended());
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  h.PushStream(0).Break();
  h.Advance(absl::Seconds(1));
  EXPECT_TRUE(Pulled());
  EXPECT_FALSE(pushed->ended());
  h.cluster.Join(99, 15);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Advance(absl::Seconds(1));
  ASSERT_THAT(pushed->status.value(), IsOk());
  EXPECT_THAT(pushed->rows, ElementsAre(2, 2));  // pushed once
}

TEST_F(PushPullTest, ABreakBeforeThePartArrivesPushesOnce) {
  h.PushPull(table, {KeyIn(0)}, {1, 1});
  h.Run();
  auto pushed = h.PushPull(table, {KeyIn(0)}, {1, 1});
  ASSERT_TRUE(h.PushStream(0).Take().has_value());  // lost
  h.PushStream(0).Break();
  h.Advance(absl::Seconds(1));
  ASSERT_THAT(pushed->status.value(), IsOk());
  EXPECT_THAT(pushed->rows, ElementsAre(2, 2));
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PushPullTest, AMovedSegmentIsFollowed) {
  h.PushPull(table, {KeyIn(0)}, {1, 1});
  h.Run();
  h.cluster.Move(0, 1, /*lose_uncommitted=*/false);
  auto pushed = h.PushPull(table, {KeyIn(0), KeyIn(1)}, {1, 1, 5, 5});
  h.Run();
  h.coordinator.PublishMap();
  h.Advance(absl::Seconds(1));
  ASSERT_THAT(pushed->status.value(), IsOk());
  EXPECT_THAT(pushed->rows, ElementsAre(2, 2, 5, 5));
}

TEST_F(PushPullTest, ARefusedPushHasNoRows) {
  h.cluster.judge = [](const v1::PushRequest&, const wire::PartEntry& part) -> std::optional<v1::Refusal> {
    if (part.count == 0) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::INVALID);
    refusal.set_message("NaN");
    return refusal;
  };
  auto pushed = h.PushPull(table, {KeyIn(0)}, {1, 1});
  h.Run();
  EXPECT_THAT(pushed->status.value(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NaN")));
  EXPECT_THAT(h.core->failure(), IsOk());
  auto flushed = h.Flush();
  h.Run();
  EXPECT_THAT(flushed->status.value(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(PushPullTest, TheDeadlineEndsTheWaitForTheRowsButNotThePush) {
  h.cluster.Join(99, 10);
  for (int i = 0; i < 5; ++i) ASSERT_THAT(h.Tick(), IsOk());
  h.cluster.auto_commit = false;
  auto pushed = h.PushPull(table, {KeyIn(0)}, {1, 1}, /*next_clock=*/false, absl::Seconds(2));
  h.Advance(absl::Seconds(3));
  EXPECT_THAT(pushed->status.value(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GT(h.core->unacknowledged_bytes(), 0u);
  h.cluster.CommitAll();
  h.Run();
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
}

TEST_F(PushPullTest, AnEmptyPushPullIsReadyAtOnce) {
  auto pushed = h.PushPull(table, {}, {});
  EXPECT_THAT(pushed->status.value(), IsOk());
}

TEST_F(PushPullTest, AfterTheLastTickNothingIsPushed) {
  auto finished = h.Finish();
  h.Run();
  ASSERT_THAT(finished->status.value(), IsOk());
  EXPECT_THAT(h.PushPull(table, {1}, {1, 1})->status.value(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("finished")));
}

}  // namespace
}  // namespace paceline::sdk
