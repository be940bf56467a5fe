#include "services/shard/segment/load_meter.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/little_endian.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

class TestClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch();
};

class LoadMeterTest : public ::testing::Test {
 protected:
  // Keys or ranges as they travel.
  void Push(const std::vector<uint64_t>& words, log::KeyForm form = log::KeyForm::kKeys) {
    std::string keys(8 * words.size(), 0);
    for (size_t i = 0; i < words.size(); ++i) StoreU64(words[i], &keys[8 * i]);
    const std::string values(40, 0);
    log::Update update;
    update.table = TableId(3);
    update.form = form;
    update.keys = keys;
    update.values = values;
    const LoadMeter::Call call = meter_.Begin();
    clock_.now += absl::Microseconds(10);
    meter_.End(call);
    meter_.Pushed(update);
  }

  TestClock clock_;
  LoadMeter meter_{1, clock_};
};

TEST_F(LoadMeterTest, TellsTheMeanFromItsFirstReportOn) {
  v1::SegmentLoad load = meter_.Report();
  EXPECT_EQ(load.pushed_per_s(), 0u) << "no time has passed";
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 100; ++i) {
      Push({1, 2, 3, 4, 5});
      clock_.now += absl::Milliseconds(10) - absl::Microseconds(10);
    }
    load = meter_.Report();
    EXPECT_NEAR(static_cast<double>(load.pushed_per_s()), 500, 2) << second;
    EXPECT_NEAR(static_cast<double>(load.bytes_per_s()), 100 * 80, 30) << second;
    EXPECT_EQ(load.read_per_s(), 0u);
    // 100 calls of 10 us: one per mille, of which every 16th call is timed.
    EXPECT_LE(load.busy_permille(), 3u);
  }
  for (int second = 0; second < 60; ++second) {
    clock_.now += absl::Seconds(1);
    load = meter_.Report();
  }
  EXPECT_EQ(load.pushed_per_s(), 0u) << "what was long ago is forgotten";
}

TEST_F(LoadMeterTest, BusyIsTheTimeOfCallsEstimatedFromSome) {
  for (int i = 0; i < 50'000; ++i) {
    Push({1});
    clock_.now += absl::Microseconds(30);
  }
  EXPECT_NEAR(meter_.Report().busy_permille(), 250, 15);
}

TEST_F(LoadMeterTest, TheHottestKeysAreNamedWithTheirRates) {
  // Every part has the same keys at the same places: a fixed stride would always meet the same ones.
  std::vector<uint64_t> keys(64);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i < 16 ? 7 : 1000 + i;
  for (int i = 0; i < 10'000; ++i) {
    Push(keys);
    clock_.now += absl::Milliseconds(1);
    if (i % 1000 == 999) (void)meter_.Report();
  }
  const v1::SegmentLoad load = meter_.Report();
  ASSERT_GE(load.keys_size(), 1);
  const double rows = static_cast<double>(load.pushed_per_s());
  EXPECT_EQ(load.keys(0).table(), 3u);
  EXPECT_EQ(load.keys(0).key(), 7u);
  EXPECT_NEAR(static_cast<double>(load.keys(0).rows_per_s()), rows / 4, rows / 30);
  for (int i = 1; i < load.keys_size(); ++i)
    EXPECT_LE(load.keys(i).rows_per_s() - load.keys(i).error(), load.pushed_per_s() / 16);
}

TEST_F(LoadMeterTest, OfRangesEachRowCounts) {
  for (int i = 0; i < 1000; ++i) {
    Push({100, 30, 500, 10}, log::KeyForm::kRanges);
    clock_.now += absl::Milliseconds(1);
  }
  const v1::SegmentLoad load = meter_.Report();
  EXPECT_NEAR(static_cast<double>(load.pushed_per_s()), 39'600, 400);
  for (const v1::HotKey& key : load.keys()) {
    const bool first = key.key() >= 100 && key.key() < 130;
    EXPECT_TRUE(first || (key.key() >= 500 && key.key() < 510)) << key.key();
  }
}

TEST_F(LoadMeterTest, OfRangesTheHottestRowsAreNamed) {
  for (int i = 0; i < 3000; ++i) {
    Push({100, 1, 500, 9}, log::KeyForm::kRanges);
    clock_.now += absl::Milliseconds(1);
  }
  const v1::SegmentLoad load = meter_.Report();
  ASSERT_GE(load.keys_size(), 1);
  for (const v1::HotKey& key : load.keys())
    EXPECT_TRUE(key.key() == 100 || (key.key() >= 500 && key.key() < 509)) << key.key();
}

TEST_F(LoadMeterTest, AKeyThatWasSeenAFewTimesIsNotTold) {
  std::vector<uint64_t> keys(2 * LoadMeter::kSampled);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  Push(keys);  // one or two of them are sampled, or at most some more
  clock_.now += absl::Seconds(1);
  const v1::SegmentLoad load = meter_.Report();
  EXPECT_GT(load.pushed_per_s(), 0u);
  EXPECT_EQ(load.keys_size(), 0);
}

TEST_F(LoadMeterTest, ReadsCountTheirRowsAndAQuestionForChangesOne) {
  const std::string keys(8 * 5, 0);
  auto table = std::make_shared<log::TableInfo>();
  table->id = TableId(3);
  table->schema.dim = 4;
  for (int i = 0; i < 100; ++i) {
    log::Read read;
    read.table = table;
    read.keys = keys;
    meter_.Read(read);
    read.changes = log::ChangesAsked{};
    meter_.Read(read);
    clock_.now += absl::Milliseconds(10);
  }
  const v1::SegmentLoad load = meter_.Report();
  EXPECT_NEAR(static_cast<double>(load.read_per_s()), 600, 6);
  EXPECT_NEAR(static_cast<double>(load.bytes_per_s()), 100 * (40 + 80), 120);
}

class ShardLoadTest : public ShardTest {
 protected:
  v1::BeatRequest Described() {
    v1::BeatRequest beat;
    shard.Describe([&](v1::BeatRequest described) { beat = std::move(described); });
    return beat;
  }
};

TEST_F(ShardLoadTest, EverySecondBeatTellsTheLoadTheHottestSegmentFirst) {
  push.Start();
  pull.Start();
  push.Send(Push(1));
  for (uint64_t n = 1; n <= 10; ++n) push.Send(Push(n, 1));
  push.Send(Push(10, 1));  // once more: it is there already, and was asked for all the same
  pull.Send(Pull(1));      // a row of each
  clock.now += absl::Seconds(1);
  const v1::BeatRequest first = Described();
  ASSERT_TRUE(first.has_load());
  EXPECT_FALSE(Described().has_load());
  EXPECT_TRUE(Described().has_load());
  const v1::ShardLoad& load = first.load();
  EXPECT_EQ(load.pushed_per_s(), 12u);
  EXPECT_EQ(load.read_per_s(), 2u);
  ASSERT_EQ(load.segments_size(), 2);
  EXPECT_EQ(load.segments(0).segment(), 1u);
  EXPECT_EQ(load.segments(0).pushed_per_s(), 11u);
  EXPECT_EQ(load.segments(1).pushed_per_s(), 1u);
  EXPECT_GT(load.segments(1).bytes(), 0u);
}

TEST_F(ShardLoadTest, WhatIsRefusedIsNoLoad) {
  push.Start();
  push.Send(Push(2));  // number 1 is missing
  ASSERT_FALSE(push.Refusals().empty());
  clock.now += absl::Seconds(1);
  EXPECT_EQ(Described().load().pushed_per_s(), 0u);
}

}  // namespace
}  // namespace paceline::shard
