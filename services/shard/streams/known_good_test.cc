// Keys of a list are looked at once, for its first use.
#include "gtest/gtest.h"
#include "libs/base/little_endian.h"
#include "libs/ring/placement.h"
#include "services/shard/streams/take_apart.h"

namespace paceline::shard {
namespace {

constexpr int kBits = 1;

class KnownGoodTest : public ::testing::Test {
 protected:
  // Two keys of each of two segments, in their order.
  KnownGoodTest() {
    const auto placement = ring::Placement::Sparse(sparse_.id, kBits).value();
    for (uint32_t segment = 0; segment < 2; ++segment) {
      for (uint64_t key = 0, found = 0; found < 2; ++key) {
        if (placement.Of(key) != SegmentId(segment)) continue;
        Append(key);
        ++found;
      }
    }
  }

  void Append(uint64_t key) {
    keys_.resize(keys_.size() + sizeof(key));
    StoreU64(key, keys_.data() + keys_.size() - sizeof(key));
  }

  // Entries are (segment, count).
  bool Known(filter::ListNotes* notes, const log::TableInfo& table, log::KeyForm form,
             const std::vector<std::pair<uint32_t, uint32_t>>& entries) {
    std::vector<wire::PartEntry> parts;
    for (const auto& [segment, count] : entries) {
      parts.push_back({.segment = SegmentId(segment), .count = count, .epoch = Epoch(1), .number = 1});
    }
    const auto slices = SliceKeys(parts, form, keys_, 1 << kBits);
    EXPECT_TRUE(slices.ok()) << slices.status();
    return slices.ok() && KnownGood(notes, table, form, *slices, kBits);
  }

  const log::TableInfo sparse_{.id = TableId(7), .job = JobId(1), .name = "sparse", .schema = {.dim = 2}};
  const log::TableInfo other_{.id = TableId(8), .job = JobId(1), .name = "other", .schema = {.dim = 2}};
  std::string keys_;
  filter::ListNotes notes_;
};

constexpr log::KeyForm kKeys = log::KeyForm::kKeys;

TEST_F(KnownGoodTest, AListIsGoodForItsFirstUseOnly) {
  EXPECT_TRUE(Known(&notes_, sparse_, kKeys, {{0, 2}, {1, 2}}));
  EXPECT_TRUE(Known(&notes_, sparse_, kKeys, {{0, 2}, {1, 2}}));
  EXPECT_TRUE(Known(&notes_, sparse_, kKeys, {{0, 2}, {1, 0}, {1, 2}})) << "an empty part has no keys";
  EXPECT_FALSE(Known(&notes_, other_, kKeys, {{0, 2}, {1, 2}}));
  EXPECT_FALSE(Known(&notes_, sparse_, kKeys, {{1, 2}, {0, 2}}));
  EXPECT_FALSE(Known(&notes_, sparse_, kKeys, {{0, 1}, {1, 3}}));
  EXPECT_FALSE(Known(&notes_, sparse_, kKeys, {{0, 1}, {0, 1}, {1, 2}})) << "good, but another use";
  EXPECT_TRUE(Known(&notes_, sparse_, kKeys, {{0, 2}, {1, 2}}));
}

TEST_F(KnownGoodTest, AFirstUseThatIsNotGoodStaysSo) {
  EXPECT_FALSE(Known(&notes_, sparse_, kKeys, {{1, 2}, {0, 2}}));
  EXPECT_TRUE(notes_.has_use());
  EXPECT_FALSE(Known(&notes_, sparse_, kKeys, {{1, 2}, {0, 2}}));
  EXPECT_FALSE(Known(&notes_, sparse_, kKeys, {{0, 2}, {1, 2}})) << "left to the segments";
}

TEST_F(KnownGoodTest, KeysBeyondATableAreNotKnownAsGood) {
  const log::TableInfo ranged{.id = TableId(9),
                              .job = JobId(1),
                              .name = "ranged",
                              .schema = {.kind = table::Kind::kRanged, .dim = 1, .rows = 100}};
  const auto placement = ring::Placement::Ranged(ranged.id, kBits, 100, 1).value();
  keys_.clear();
  Append(99);
  const uint32_t segment = placement.Of(99).v;
  EXPECT_TRUE(Known(&notes_, ranged, kKeys, {{segment, 1}}));
  keys_.clear();
  Append(100);
  ASSERT_EQ(placement.Of(100).v, segment);
  filter::ListNotes beyond;
  EXPECT_FALSE(Known(&beyond, ranged, kKeys, {{segment, 1}}));
}

TEST_F(KnownGoodTest, NothingIsKnownOfRangesOrWithoutAList) {
  EXPECT_FALSE(Known(nullptr, sparse_, kKeys, {{0, 2}, {1, 2}}));
  keys_.clear();
  Append(0);
  Append(0);
  EXPECT_FALSE(Known(&notes_, sparse_, log::KeyForm::kRanges, {{0, 1}}));
  EXPECT_FALSE(notes_.has_use());
}

}  // namespace
}  // namespace paceline::shard
