#include "libs/log/staging.h"

#include <array>
#include <map>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/primary.h"
#include "libs/log/testing.h"
#include "libs/world/random.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr JobId kJob{1};
constexpr SessionId kA{7};
constexpr SessionId kB{8};

class Sink : public AckSink {
 public:
  void Committed(wire::Mark) override {}
};

Update Staged(SessionId session, PartNumber number, Clock clock,
              std::vector<std::pair<uint64_t, float>> rows) {
  Update update = MakeUpdate(session, number, std::move(rows), clock);
  update.line = Line::kAggregated;
  return update;
}

clock::JobClock Workers(std::vector<std::pair<SessionId, uint32_t>> ranks) {
  clock::JobClock clock;
  for (const auto& [session, rank] : ranks) clock.Join(session, 0, rank);
  return clock;
}

TEST(StagingTest, FoldsWorkersByRankAndEachByNumber) {
  Staging staging;
  const auto table = AggregatedTable(kJob, /*mean=*/false);
  // In f32 the order of these sums can be told from their result.
  staging.Put(kJob, Staged(kA, 1, 3, {{5, 1.0f}, {6, 1.0f}}), table);
  staging.Put(kJob, Staged(kA, 2, 3, {{5, -1e8f}}), table);
  staging.Put(kJob, Staged(kB, 1, 3, {{5, 1e8f}}), table);
  const auto first_b = staging.Take(kJob, 3, Workers({{kA, 1}, {kB, 0}}));
  ASSERT_THAT(first_b.record.tables, SizeIs(1));
  EXPECT_THAT(first_b.record.tables[0].keys, ElementsAre(5, 6));
  EXPECT_THAT(first_b.record.tables[0].values, ElementsAre((1e8f + 1.0f) - 1e8f, 1.0f));
  EXPECT_THAT(first_b.record.numbers, ElementsAre(Pair(kB, 1), Pair(kA, 2)));
  EXPECT_EQ(staging.bytes(), 0u);
}

// Ranges that are equal or apart are added as a whole, others row by row: with the same result.
TEST(StagingTest, RangesAddUpLikeTheirRows) {
  constexpr JobId kRangesJob{2};
  world::SplitMix64 random(11);
  auto info = std::make_shared<TableInfo>(*AggregatedTable(kRangesJob, /*mean=*/false));
  info->schema.dim = 3;
  for (int round = 0; round < 300; ++round) {
    Staging by_range;
    Staging by_row;
    for (PartNumber number = 1; number <= 6; ++number) {
      auto memory = std::make_shared<std::array<std::string, 3>>();
      auto& [ranges, keys, values] = *memory;
      for (uint64_t part = random.Next() % 3; part < 3; ++part) {
        // Mostly the same few, as those of workers with one model.
        const bool same = round % 3 == 0 || random.Next() % 8 != 0;
        const uint64_t first = same ? 10 * (random.Next() % 4) : random.Next() % 40;
        const uint64_t count = same ? 10 : 1 + random.Next() % 20;
        for (const uint64_t word : {first, count}) ranges.append(reinterpret_cast<const char*>(&word), 8);
        for (uint64_t key = first; key < first + count; ++key) {
          keys.append(reinterpret_cast<const char*>(&key), 8);
          for (int i = 0; i < 3; ++i) {
            const float value = static_cast<float>(random.Next() % 1000) / 7.0f;
            values.append(reinterpret_cast<const char*>(&value), 4);
          }
        }
      }
      Update update = Staged(kA, number, 0, {});
      update.table = kFoldedTable;
      update.values = values;
      update.owner = memory;
      // One of six pushes keys.
      const bool keyed = round % 3 == 2 && number == 4;
      update.form = keyed ? KeyForm::kKeys : KeyForm::kRanges;
      update.keys = keyed ? keys : ranges;
      update.count = 1;
      by_range.Put(kRangesJob, update, info);
      update.form = KeyForm::kKeys;
      update.keys = keys;
      by_row.Put(kRangesJob, update, info);
    }
    EXPECT_EQ(by_range.folded_bytes(kRangesJob, 0), by_row.folded_bytes(kRangesJob, 0));
    const auto workers = Workers({{kA, 0}});
    const auto ranges = by_range.Take(kRangesJob, 0, workers);
    const auto rows = by_row.Take(kRangesJob, 0, workers);
    ASSERT_THAT(ranges.record.tables, SizeIs(1));
    EXPECT_EQ(ranges.record.tables[0].keys, rows.record.tables[0].keys);
    EXPECT_EQ(ranges.record.tables[0].values, rows.record.tables[0].values);
  }
}

TEST(StagingTest, KeepsTheClocksApart) {
  Staging staging;
  const auto table = AggregatedTable(kJob, /*mean=*/false);
  staging.Put(kJob, Staged(kA, 1, 3, {{5, 1.0f}}), table);
  staging.Put(kJob, Staged(kA, 2, 4, {{5, 2.0f}}), table);
  EXPECT_THAT(staging.Oldest(kJob), Optional(3u));
  EXPECT_EQ(staging.Oldest(JobId(2)), std::nullopt);
  EXPECT_EQ(staging.Last(kA), 2u);
  EXPECT_EQ(staging.LastClock(kA), 4u);
  EXPECT_GT(staging.bytes(kJob, 3), 12u);
  EXPECT_EQ(staging.bytes(kJob, 3) + staging.bytes(kJob, 4), staging.bytes());
  const auto three = staging.Take(kJob, 3, Workers({{kA, 0}}));
  EXPECT_THAT(three.record.tables[0].values, ElementsAre(1.0f));
  EXPECT_THAT(staging.Oldest(kJob), Optional(4u));
  EXPECT_EQ(staging.Last(kA), 2u);
}

TEST(StagingTest, TheMeanIsOverTheMembersNotOverThosePushing) {
  Staging staging;
  staging.Put(kJob, Staged(kA, 1, 0, {{5, 3.0f}}), AggregatedTable(kJob, /*mean=*/true));
  const auto complete = staging.Take(kJob, 0, Workers({{kA, 0}, {kB, 1}}));
  EXPECT_THAT(complete.record.tables[0].values, ElementsAre(1.5f));
}

TEST(StagingTest, AnEmptyPartTakesItsNumberAndNothingElse) {
  Staging staging;
  staging.Put(kJob, Staged(kA, 1, 2, {}), nullptr);
  EXPECT_EQ(staging.Last(kA), 1u);
  EXPECT_EQ(staging.bytes(), 0u);
  const auto complete = staging.Take(kJob, 2, Workers({{kA, 0}}));
  EXPECT_THAT(complete.record.tables, IsEmpty());
  EXPECT_THAT(complete.record.numbers, ElementsAre(Pair(kA, 1)));
}

TEST(StagingTest, RangesFoldKeyByKey) {
  Staging staging;
  const auto table = AggregatedTable(kJob, /*mean=*/false);
  Update range = Staged(kA, 1, 0, {{5, 1.0f}, {2, 2.0f}});  // as a range: 2 keys from 5 on
  range.form = KeyForm::kRanges;
  range.count = 1;
  const uint64_t words[] = {5, 2};
  range.keys = absl::string_view(reinterpret_cast<const char*>(words), sizeof(words));
  staging.Put(kJob, range, table);
  staging.Put(kJob, Staged(kB, 1, 0, {{6, 4.0f}}), table);
  const auto complete = staging.Take(kJob, 0, Workers({{kA, 0}, {kB, 1}}));
  EXPECT_THAT(complete.record.tables[0].keys, ElementsAre(5, 6));
  EXPECT_THAT(complete.record.tables[0].values, ElementsAre(1.0f, 6.0f));
}

TEST(StagingTest, DropGivesBackTheBytesOfASession) {
  Staging staging;
  const auto table = AggregatedTable(kJob, /*mean=*/false);
  staging.Put(kJob, Staged(kA, 1, 0, {{5, 1.0f}}), table);
  staging.Put(kJob, Staged(kB, 1, 0, {{5, 1.0f}}), table);
  const uint64_t both = staging.bytes();
  EXPECT_EQ(staging.Drop(kA), both / 2);
  EXPECT_EQ(staging.Drop(kA), 0u);
  EXPECT_EQ(staging.Last(kA), 0u);
  EXPECT_EQ(staging.Clear(), both / 2);
  EXPECT_EQ(staging.Oldest(kJob), std::nullopt);
}

TEST(StagingTest, OnlyTheNewestStreamsAreTold) {
  Staging staging;
  staging.Put(kJob, Staged(kA, 1, 0, {{5, 1.0f}}), AggregatedTable(kJob, /*mean=*/false));
  std::vector<std::shared_ptr<AckSink>> sinks;
  for (size_t i = 0; i < 2 * Staging::kSinksMax; ++i) {
    sinks.push_back(std::make_shared<Sink>());
    staging.Tell(kA, sinks.back());
    staging.Tell(kA, sinks.back());
  }
  staging.Tell(kB, sinks.back());  // has nothing here
  const auto complete = staging.Take(kJob, 0, Workers({{kA, 0}}));
  ASSERT_THAT(complete.sinks, SizeIs(1));
  EXPECT_THAT(complete.sinks[0], ::testing::ElementsAreArray(sinks.end() - Staging::kSinksMax, sinks.end()));
}

// Against the definition: every clock's rows, added up one after the other.
TEST(StagingTest, RandomClocksFoldAsTheirDefinitionSays) {
  world::SplitMix64 random(3);
  for (int round = 0; round < 300; ++round) {
    struct Pushed {
      uint32_t rank;
      SessionId session;
      PartNumber number;
      std::vector<std::pair<uint64_t, float>> rows;
    };
    const bool mean = world::Chance(random, 0.5);
    const auto table = AggregatedTable(kJob, mean);
    const uint64_t workers = 1 + world::Uniform(random, 5);
    clock::JobClock clock;
    for (uint64_t w = 1; w <= workers; ++w) {
      clock.Join(SessionId(w), world::Uniform(random, 3), static_cast<uint32_t>((w * 7) % 5));
    }
    Staging staging;
    std::map<Clock, std::vector<Pushed>> pushed;
    std::map<SessionId, PartNumber> numbers;
    for (int part = 0; part < 30; ++part) {
      const SessionId session(1 + world::Uniform(random, workers));
      const Clock at = std::max<Clock>(static_cast<Clock>(part) / 10, clock.workers().at(session).start);
      std::vector<std::pair<uint64_t, float>> rows;
      for (uint64_t n = world::Uniform(random, 4); n > 0; --n) {
        rows.emplace_back(world::Uniform(random, 3), static_cast<float>(world::UnitInterval(random)));
      }
      const PartNumber number = ++numbers[session];
      staging.Put(kJob, Staged(session, number, std::max(at, staging.LastClock(session)), rows), table);
      pushed[std::max(at, staging.LastClock(session))].push_back(
          {clock.workers().at(session).rank, session, number, rows});
    }
    for (auto& [at, parts] : pushed) {
      std::sort(parts.begin(), parts.end(), [](const Pushed& a, const Pushed& b) {
        return std::tie(a.rank, a.session, a.number) < std::tie(b.rank, b.session, b.number);
      });
      std::map<uint64_t, float> sums;
      std::map<SessionId, PartNumber> last;
      for (const Pushed& part : parts) {
        for (const auto& [key, value] : part.rows) {
          const auto [it, first] = sums.emplace(key, value);
          if (!first) it->second = it->second + value;
        }
        last[part.session] = part.number;
      }
      const auto members = static_cast<float>(clock.Members(at));
      for (auto& [key, sum] : sums) sum = mean ? sum / members : sum;

      const auto complete = staging.Take(kJob, at, clock);
      std::map<uint64_t, float> folded;
      for (const FoldedRows& rows : complete.record.tables) {
        for (size_t i = 0; i < rows.keys.size(); ++i) {
          ASSERT_TRUE(folded.emplace(rows.keys[i], rows.values[i]).second) << "a key twice";
        }
      }
      ASSERT_EQ(folded, sums) << "round " << round << " clock " << at;
      const std::map<SessionId, PartNumber> told(complete.record.numbers.begin(),
                                                 complete.record.numbers.end());
      ASSERT_EQ(told, last);
    }
    ASSERT_EQ(staging.bytes(), 0u);
  }
}

TEST(StagingTest, ADroppedTableFoldsNumbersOnly) {
  Staging staging;
  clock::JobClock workers;
  workers.Join(SessionId(7), 0, 0);
  const Update part = MakeUpdate(SessionId(7), 1, {{5, 1.0f}});
  staging.Put(JobId(1), part, SumTable(JobId(1)));
  EXPECT_EQ(staging.Drop(kSumTable), Staging::BytesOf(part));
  EXPECT_EQ(staging.bytes(), 0u);
  const Staging::Complete complete = staging.Take(JobId(1), 0, workers);
  EXPECT_TRUE(complete.record.tables.empty());
  ASSERT_EQ(complete.record.numbers.size(), 1u);
  EXPECT_EQ(complete.record.numbers[0].second, 1u);
}

}  // namespace
}  // namespace paceline::log
