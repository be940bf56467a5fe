#include "libs/log/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "libs/world/random.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(ChangeLogTest, TellsEachRowOnceThatWasChangedSince) {
  ChangeLog log(Lsn(10));
  log.Add(Lsn(11), 7);
  log.Add(Lsn(12), 3);
  log.Add(Lsn(12), 7);
  log.Add(Lsn(15), 5);
  EXPECT_THAT(log.Since(Lsn(10), 3), Optional(ElementsAre(3, 5, 7)));
  EXPECT_THAT(log.Since(Lsn(11), 9), Optional(ElementsAre(3, 5, 7)));
  EXPECT_THAT(log.Since(Lsn(12), 9), Optional(ElementsAre(5)));
  EXPECT_THAT(log.Since(Lsn(15), 0), Optional(IsEmpty()));
}

TEST(ChangeLogTest, MovesAddUpUntilTheyAreSettled) {
  ChangeLog log(Lsn(0));
  EXPECT_EQ(log.Moved(7), 0);
  log.Add(Lsn(1), 7, 0.5f);
  log.Add(Lsn(2), 7, 0.25f);
  log.Add(Lsn(2), 8, 1);
  EXPECT_EQ(log.Moved(7), 0.75f);
  log.Settle(Lsn(2));
  log.Add(Lsn(3), 7, 0.125f);
  EXPECT_EQ(log.Moved(7), 0.125f);
  log.Add(Lsn(4), 7, 0.125f);
  EXPECT_EQ(log.Moved(7), 0.25f);
  log.Settle(Lsn(1));
  log.Add(Lsn(5), 8, 2);
  EXPECT_EQ(log.Moved(8), 2) << "what is settled stays so";
}

TEST(ChangeLogTest, ARowThatChangesAgainAndAgainTakesNoMoreRoom) {
  ChangeLog log(Lsn(0), /*rows_max=*/2);
  log.Add(Lsn(1), 5);
  for (uint64_t version = 2; version <= 10'000; ++version) log.Add(Lsn(version), 7);
  EXPECT_EQ(log.rows(), 2u);
  EXPECT_THAT(log.Since(Lsn(0), 9), Optional(ElementsAre(5, 7)));
  EXPECT_THAT(log.Since(Lsn(1), 9), Optional(ElementsAre(7)));
  log.Add(Lsn(10'001), 8);
  EXPECT_EQ(log.rows(), 2u);
  EXPECT_EQ(log.Since(Lsn(0), 9), std::nullopt);
  EXPECT_THAT(log.Since(Lsn(1), 9), Optional(ElementsAre(7, 8)));
}

TEST(ChangeLogTest, SaysSoWhenItDoesNotKnowOrThereAreTooMany) {
  ChangeLog log(Lsn(10));
  log.Add(Lsn(11), 7);
  log.Add(Lsn(11), 8);
  EXPECT_EQ(log.Since(Lsn(9), 100), std::nullopt);
  EXPECT_EQ(log.Since(Lsn(10), 1), std::nullopt);
}

TEST(ChangeLogTest, ForgetsWholeRecordsAndNeverTellsLessThanThereWas) {
  world::SplitMix64 random(1);
  ChangeLog log(Lsn(0));
  std::vector<std::set<uint64_t>> changed(1);  // by record: the obvious reference
  for (uint64_t version = 1; version <= 4000; ++version) {
    changed.emplace_back();
    for (uint64_t n = world::Uniform(random, 8); n > 0; --n) {
      const uint64_t key = world::Uniform(random, world::Chance(random, 0.2) ? 100 : 50'000);
      if (changed.back().insert(key).second) log.Add(Lsn(version), key);
    }
  }
  EXPECT_LE(log.rows(), ChangeLog::kRowsMax);
  EXPECT_EQ(log.Since(Lsn(0), UINT64_MAX), std::nullopt);
  int known = 0;
  for (uint64_t since = 0; since <= 4000; ++since) {
    const auto told = log.Since(Lsn(since), UINT64_MAX);
    if (!told.has_value()) {
      EXPECT_EQ(known, 0) << "it knows what came after record " << since - 1 << ", but not after " << since;
      continue;
    }
    ++known;
    if (since % 100 != 0) continue;
    std::set<uint64_t> expected;
    for (uint64_t v = since + 1; v <= 4000; ++v) expected.insert(changed[v].begin(), changed[v].end());
    EXPECT_EQ(std::set<uint64_t>(told->begin(), told->end()), expected);
  }
  EXPECT_GT(known, 1000);
}

}  // namespace
}  // namespace paceline::log
