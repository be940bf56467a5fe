// Aggregated tables against a reference that keeps everything.
#include <algorithm>
#include <array>

#include "gtest/gtest.h"
#include "libs/log/test_util/fold_fixture.h"
#include "libs/world/random.h"

namespace paceline::log {
namespace {

// Random workers, parts sent again, changes of primary, evictions: every value is exactly what the members'
// clocks below the min clock come to, and equal to the sums of a reference that keeps everything.
TEST_F(FoldTest, RandomHistoriesHoldExactlyTheCompleteClocks) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    world::SplitMix64 random(seed);
    budget = std::make_shared<StagingBudget>();
    primary.emplace(SegmentId(0), 0, Epoch(1), budget);
    struct Made {
      Clock clock;
      std::vector<std::pair<uint64_t, float>> rows;
    };
    struct Worker {
      Clock clock = 0;
      std::vector<Made> parts;
      size_t sent = 0;                 // of them, on its way to the primary of now
      std::vector<PartNumber> sealed;  // by clock: how many parts of smaller ones
      std::optional<Clock> counts_below;
    };
    std::map<SessionId, Worker> workers;
    for (uint64_t w = 1; w <= 4; ++w) {
      acks[SessionId(w)] = std::make_shared<Acks>();
      ASSERT_TRUE(Change(v1::Change::kOpen, SessionId(w)));
      ASSERT_TRUE(Change(v1::Change::kJoin, SessionId(w), 0, static_cast<uint32_t>(w)));
      workers[SessionId(w)].sealed.push_back(0);
    }
    ASSERT_TRUE(Change(v1::Change::kOpen, kReader));
    uint64_t epoch = 1;
    for (int step = 0; step < 400; ++step) {
      const SessionId id(1 + world::Uniform(random, 4));
      Worker& worker = workers[id];
      if (worker.counts_below.has_value()) continue;
      switch (world::Uniform(random, 20)) {
        case 0: {
          if (!world::Chance(random, 0.2)) break;
          Segment state = primary->Release({}).segment;
          primary.emplace(std::move(state), Epoch(++epoch), budget);
          for (auto& [other, of_other] : workers) of_other.sent = 0;
          break;
        }
        case 1:
          if (!world::Chance(random, 0.05)) break;
          worker.counts_below = MinClock();
          ASSERT_TRUE(Change(v1::Change::kEvict, id));
          break;
        case 2:
        case 3:
        case 4:
          worker.sealed.push_back(worker.parts.size());
          ++worker.clock;
          primary->Tick(id, worker.clock, {{0, worker.sealed.back()}});
          break;
        case 5:  // a stream broke: it begins again, maybe with what was taken already
          worker.sent = std::min<size_t>(worker.sent, world::Uniform(random, worker.parts.size() + 1));
          break;
        case 6:  // what the primary of now may not have heard
          primary->Tick(id, worker.clock, {{0, worker.sealed[worker.clock]}});
          break;
        case 7:
        case 8:
        case 9:
        case 10: {
          Made made{.clock = worker.clock, .rows = {}};
          for (uint64_t n = world::Uniform(random, 3); n > 0; --n) {
            made.rows.emplace_back(world::Uniform(random, 3),
                                   static_cast<float>(1 + world::Uniform(random, 9)));
          }
          worker.parts.push_back(std::move(made));
          break;
        }
        default: {
          if (worker.sent == worker.parts.size()) break;
          const Made& made = worker.parts[worker.sent];
          const auto refusal = Push(id, worker.sent + 1, made.clock, made.rows);
          if (!refusal.has_value()) {
            ++worker.sent;
          } else if (refusal->reason() == v1::Refusal::OUT_OF_ORDER) {
            worker.sent = refusal->expected() - 1;
          } else {
            ASSERT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET) << refusal->message();
            ASSERT_GT(made.clock, MinClock() + 1);
          }
        }
      }
      std::array<float, 3> sums{};
      for (const auto& [session, of] : workers) {
        for (const Made& made : of.parts) {
          if (made.clock >= std::min(MinClock(), of.counts_below.value_or(UINT64_MAX))) continue;
          for (const auto& [key, more] : made.rows) sums[key] += more;
        }
      }
      const bool someone = std::any_of(workers.begin(), workers.end(),
                                       [](const auto& w) { return !w.second.counts_below.has_value(); });
      if (!someone) break;
      for (uint64_t key = 0; key < 3; ++key) {
        ASSERT_TRUE(Pull(kReader, 0, key)->certificate);
        ASSERT_EQ(value, sums[key]) << "step " << step << " key " << key;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::log
