// Random pushes, pulls, both in one, reads through the cache, and ticks; streams that break with frames and
// replies lost on the way; segments that move, with and without what was not acknowledged. In the end every
// part is there once, in order, and every read kept its bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using testing::CoreHarness;
using testing::FakeStream;
using ::testing::IsEmpty;

class World {
 public:
  explicit World(uint64_t seed)
      : h_({.ring_bits = 3, .shards = 3, .workers = 1, .start_clock = seed % 3, .seed = seed}),
        random_(seed * 77),
        // A table that is pushed to with priorities is not cached.
        priorities_(seed % 2 == 0 ? 3 : 1) {
    h_.cluster.auto_commit = false;
    h_.cluster.feature_level = seed % 4 < 2 ? 2 : 1;  // pushes share frames at level 2
    EXPECT_THAT(h_.Open(), IsOk());
    table_ = h_.OpenTable("w", {.dim = 1}, Ssp{.staleness = 0}).value();
    folded_ = h_.OpenTable("f", {.dim = 1, .aggregated = true}, Bsp{}).value();
  }

  void Play(int steps) {
    for (int i = 0; i < steps; ++i) Step();
    h_.cluster.judge = nullptr;
    h_.cluster.auto_commit = true;
    h_.cluster.CommitAll();
    h_.coordinator.PublishMap();
    EXPECT_THAT(h_.Tick(), IsOk());  // what was pushed to the aggregated table waits for it
    h_.Advance(absl::Seconds(30));
  }

  // How often what was to be tested has happened.
  struct Seen {
    uint64_t retries = 0, breaks = 0, moves = 0, lost = 0, pulls = 0, cached = 0, clocks = 0;
  };
  void AddTo(Seen& seen) const {
    const Stats stats = h_.core->stats();
    seen.retries += stats.retries;
    seen.breaks += stats.breaks;
    seen.moves += moves_;
    seen.lost += lost_;
    seen.pulls += stats.rows_pulled;
    seen.cached += stats.rows_from_cache;
    seen.clocks += h_.core->clock();
  }

  void Check() {
    EXPECT_THAT(h_.core->failure(), IsOk());
    EXPECT_THAT(h_.cluster.violations, IsEmpty());
    EXPECT_EQ(h_.core->unacknowledged_bytes(), 0u);
    for (const auto& push : pushes_) {
      ASSERT_TRUE(push->ended());
      EXPECT_THAT(*push->status, IsOk());
    }
    for (const auto& [pull, key, least, exact] : pulls_) {
      ASSERT_TRUE(pull->ended());
      EXPECT_THAT(*pull->status, IsOk());
      EXPECT_GE(pull->rows[0], least) << "does not hold the reader's own writes";
      if (exact) {
        EXPECT_EQ(pull->rows[0], least) << "holds more than the clocks before the reader's";
      }
    }
    for (const auto& [which, sum] : sums_) {
      const auto& [aggregated, key] = which;
      const auto& table = aggregated ? folded_ : table_;
      EXPECT_EQ(h_.cluster.Row(table->placement.Of(key).v, table->id.v, key)[0], sum) << "key " << key;
    }
    for (uint32_t s = 0; s < h_.cluster.SegmentCount(); ++s) {
      std::map<Line, PartNumber> last;
      for (const auto& entry : h_.cluster.LogOf(s)) EXPECT_EQ(entry.number, ++last[entry.line]);
      EXPECT_EQ(h_.cluster.MinClock(s), h_.core->clock());
    }
  }

 private:
  void Step() {
    switch (world::Uniform(random_, 12)) {
      case 0:
      case 1:
        return Push();
      case 2:
        return world::Chance(random_, 0.5) ? Push() : PushPull();
      case 3:
        return world::Chance(random_, 0.5) ? Pull() : Read();
      case 4:
        EXPECT_THAT(h_.Tick(), IsOk());
        complete_ = sums_;
        return;
      case 5:
        return Break();
      case 6:
        if (world::Chance(random_, 0.3)) Move();
        return;
      case 7:
        h_.cluster.CommitAll();
        return;
      case 8:
        h_.Advance(absl::Milliseconds(world::Uniform(random_, 100)));
        return;
      case 9:
        return ChangeMood();
      default:
        h_.Step(static_cast<int>(world::Uniform(random_, 3)));
    }
  }

  void Push() {
    std::vector<uint64_t> keys;
    for (uint64_t n = world::Uniform(random_, 5); n > 0; --n) keys.push_back(world::Uniform(random_, 30));
    const bool aggregated = world::Chance(random_, 0.4);
    pushes_.push_back(h_.Push(aggregated ? folded_ : table_, keys, std::vector<float>(keys.size(), 1.0f),
                              static_cast<uint32_t>(world::Uniform(random_, priorities_)),
                              absl::InfiniteDuration()));
    for (uint64_t key : keys) sums_[{aggregated, key}] += 1;
  }
  // A push whose rows come back.
  void PushPull() {
    const uint64_t key = world::Uniform(random_, 30);
    const float sum = sums_[{false, key}] += 1;
    pulls_.push_back({h_.PushPull(table_, {key}, {1.0f}, false, absl::InfiniteDuration()), key, sum, false});
  }
  // Through the cache.
  void Read() {
    const uint64_t key = world::Uniform(random_, 30);
    pulls_.push_back({h_.Read(table_, {key}), key, sums_[{false, key}], false});
  }
  void Pull() {
    const uint64_t key = world::Uniform(random_, 30);
    const bool exact = world::Chance(random_, 0.4);
    const float least = exact ? complete_[{true, key}] : sums_[{false, key}];
    pulls_.push_back({h_.Pull(exact ? folded_ : table_, {key}, std::nullopt, 0, absl::InfiniteDuration()),
                      key, least, exact});
  }
  // A stream breaks; frames the client has sent and answers it has not got are lost.
  void Break() {
    if (h_.dialer.streams.empty()) return;
    FakeStream& stream = *h_.dialer.streams[world::Uniform(random_, h_.dialer.streams.size())];
    for (uint64_t n = world::Uniform(random_, 4); n > 0; --n) stream.Take();
    stream.Break();
  }
  void Move() {
    const auto segment = static_cast<uint32_t>(world::Uniform(random_, h_.cluster.SegmentCount()));
    const size_t before = h_.cluster.LogOf(segment).size();
    h_.cluster.Move(segment, static_cast<uint32_t>(world::Uniform(random_, 3)), world::Chance(random_, 0.5));
    ++moves_;
    lost_ += before - h_.cluster.LogOf(segment).size();
    if (world::Chance(random_, 0.7)) h_.coordinator.PublishMap();
    if (world::Chance(random_, 0.2)) h_.coordinator.BreakWatches();
  }
  // For a while some parts are refused.
  void ChangeMood() {
    if (world::Chance(random_, 0.5)) {
      h_.cluster.judge = nullptr;
      return;
    }
    h_.cluster.judge = [this](const v1::PushRequest&, const wire::PartEntry&) -> std::optional<v1::Refusal> {
      if (world::Chance(random_, 0.6)) return std::nullopt;
      v1::Refusal refusal;
      refusal.set_reason(world::Chance(random_, 0.5) ? v1::Refusal::OVER_BUDGET : v1::Refusal::UNAVAILABLE);
      refusal.set_retry_after_ms(static_cast<uint32_t>(world::Uniform(random_, 50)));
      return refusal;
    };
  }

  struct PullUnderWay {
    std::shared_ptr<CoreHarness::Outcome> outcome;
    uint64_t key;
    float least;
    bool exact;
  };
  using Sums = std::map<std::pair<bool, uint64_t>, float>;  // by whether it is the aggregated table, and key

  CoreHarness h_;
  world::SplitMix64 random_;
  const uint64_t priorities_;
  std::shared_ptr<const TableInfo> table_, folded_;
  std::vector<std::shared_ptr<CoreHarness::Outcome>> pushes_;
  std::vector<PullUnderWay> pulls_;
  Sums sums_;      // of all that was pushed
  Sums complete_;  // … in clocks that have ended
  uint64_t moves_ = 0;
  uint64_t lost_ = 0;  // parts applied and forgotten again
};

TEST(Property, EveryPartIsAppliedOnceAndInOrder) {
  World::Seen seen;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.Play(300);
    world.Check();
    if (::testing::Test::HasFailure()) break;
    world.AddTo(seen);
  }
  EXPECT_GT(seen.retries, 5'000u);
  EXPECT_GT(seen.breaks, 1'000u);
  EXPECT_GT(seen.moves, 1'000u);
  EXPECT_GT(seen.lost, 100u);
  EXPECT_GT(seen.pulls, 5'000u);
  EXPECT_GT(seen.cached, 50u);
  EXPECT_GT(seen.clocks, 5'000u);
  RecordProperty(
      "seen", absl::StrCat("retries ", seen.retries, " breaks ", seen.breaks, " moves ", seen.moves, " lost ",
                           seen.lost, " pulls ", seen.pulls, " clocks ", seen.clocks));
}

}  // namespace
}  // namespace paceline::sdk
