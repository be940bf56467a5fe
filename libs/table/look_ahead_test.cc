#include "libs/table/look_ahead.h"

#include <vector>

#include "gtest/gtest.h"
#include "libs/table/store.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

// Rows that are born, split away or not there at all between the hint and the update.
TEST(LookAhead, ChangesNothing) {
  const Schema schema = {.dim = 16, .rule = Adagrad{.lr = 0.1f, .epsilon = 1e-6f}, .seed = 3};
  TableStore foreseen(TableId(3), schema, 0);
  TableStore plain(TableId(3), schema, 0);
  world::SplitMix64 random(1);
  LookAhead ahead;
  for (uint64_t version = 1; version <= 200; ++version) {
    std::vector<uint64_t> keys(1 + world::Uniform(random, LookAhead::kKeys));
    for (uint64_t& key : keys) key = world::Uniform(random, 20'000);
    const std::vector<float> gradients(keys.size() * schema.dim, static_cast<float>(version));
    EXPECT_EQ(ahead.room(), LookAhead::kKeys);
    foreseen.Foresee(keys, ahead);
    EXPECT_EQ(ahead.room(), LookAhead::kKeys - keys.size());
    ahead.Restart();
    foreseen.Update(keys, gradients, Lsn(version));
    plain.Update(keys, gradients, Lsn(version));
    ASSERT_EQ(foreseen.Hash(), plain.Hash()) << version;
  }
}

TEST(LookAhead, ARangedTableTakesNoRoom) {
  TableStore store(TableId(3), {.kind = Kind::kRanged, .dim = 2, .rows = 1000, .rule = Add{}}, 0);
  LookAhead ahead;
  const std::vector<uint64_t> keys{1, 2, 999};
  store.Foresee(keys, ahead);
  EXPECT_EQ(ahead.room(), LookAhead::kKeys);
}

}  // namespace
}  // namespace paceline::table
