#include "sdk/cpp/src/push/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "libs/base/little_endian.h"
#include "libs/wire/map_codec.h"
#include "libs/world/random.h"
#include "sdk/cpp/src/push/listed_keys.h"
#include "sdk/cpp/src/testing/fake_cluster.h"

namespace paceline::sdk {
namespace {

std::shared_ptr<const Routes> RoutesFor(int ring_bits, uint32_t shards) {
  return Routes::Of(wire::MapFromProto(testing::FakeCluster(ring_bits, shards).Map()).value());
}

std::vector<float> Numbered(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// Appends the bytes in many chunks that cut through rows.
void AppendChunks(absl::string_view bytes, absl::Cord& out) {
  while (!bytes.empty()) {
    const size_t n = std::min<size_t>(bytes.size(), 1000);
    auto* chunk = new std::string(bytes.substr(0, n));
    out.Append(absl::MakeCordFromExternal(*chunk, [chunk] { delete chunk; }));
    bytes.remove_prefix(n);
  }
}

// The rows that a shard would send back if it echoed each push. It may do so piece by piece, or with pieces
// together, some of which the client wants no more.
std::vector<float> Echo(const Batch& batch) {
  std::vector<float> out(size_t{batch.rows} * batch.dim, -1.0f);
  for (const Batch::Piece& piece : batch.pieces) {
    absl::Cord cord;
    AppendChunks(batch.Values(piece), cord);
    Scatter(batch, piece, cord, out.data());
  }
  std::vector<float> together(out.size(), -1.0f);
  for (const size_t wanted : {0, 1}) {  // every second piece
    absl::Cord in_chunks;
    absl::Cord flat;
    std::vector<Stretch> pieces;
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      if (i % 2 == wanted) pieces.push_back({.piece = &batch.pieces[i], .at = flat.size()});
      AppendChunks(batch.Values(batch.pieces[i]), in_chunks);
      flat.Append(batch.Values(batch.pieces[i]));
    }
    Scatter(batch, pieces, wanted == 0 ? in_chunks : absl::Cord(std::string(flat)), together.data());
  }
  EXPECT_EQ(together, out);
  return out;
}

TEST(Batch, KeysAreGroupedBySegmentAndKeepTheirOrderWithin) {
  world::SplitMix64 random(3);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{500}, size_t{20'000}}) {
    for (const int bits : {0, 3, 8}) {
      const auto routes = RoutesFor(bits, 1 + static_cast<uint32_t>(bits) / 2);
      const auto placement = ring::Placement::Sparse(TableId(4), bits).value();
      std::vector<uint64_t> keys;
      for (size_t i = 0; i < count; ++i) keys.push_back(world::Uniform(random, 1000));
      const std::vector<float> values = Numbered(count * 3);
      const auto batch = GroupKeys(*routes, placement, 3, keys, values, AllocateFresh);
      std::map<uint32_t, std::vector<uint64_t>> want;  // the slow reference
      for (uint64_t key : keys) want[placement.Of(key).v].push_back(key);
      std::map<uint32_t, std::vector<uint64_t>> got;
      size_t rows = 0;
      for (const Batch::Piece& piece : batch->pieces) {
        EXPECT_LE(batch->KeyBytes(piece) + batch->ValueBytes(piece), kPushPieceBytes);
        const absl::string_view bytes = batch->Keys(piece);
        for (size_t i = 0; i < bytes.size(); i += 8)
          got[piece.segment.v].push_back(LoadU64(bytes.data() + i));
        rows += piece.rows;
      }
      EXPECT_EQ(got, want);
      EXPECT_EQ(rows, count);
      EXPECT_EQ(Echo(*batch), values);
    }
  }
}

TEST(Batch, SortedKeysOfARangedTableAreGroupedAsOthersAre) {
  world::SplitMix64 random(9);
  for (const uint32_t dim : {1u, 3u}) {
    for (const size_t count : {size_t{1}, size_t{40}, size_t{5'000}}) {
      const auto routes = RoutesFor(3, 2);
      const auto placement = ring::Placement::Ranged(TableId(4), 3, 20'000, dim).value();
      std::vector<uint64_t> keys;
      for (size_t i = 0; i < count; ++i) keys.push_back(world::Uniform(random, 20'000));
      std::sort(keys.begin(), keys.end());
      if (count > 100) std::swap(keys[10], keys[count - 10]);  // one run is torn
      const auto batch = GroupKeys(*routes, placement, dim, keys, Numbered(count * dim), AllocateFresh);
      std::map<uint32_t, std::vector<uint64_t>> want;  // the slow reference
      for (uint64_t key : keys) want[placement.Of(key).v].push_back(key);
      std::map<uint32_t, std::vector<uint64_t>> got;
      for (const Batch::Piece& piece : batch->pieces) {
        const absl::string_view bytes = batch->Keys(piece);
        for (size_t i = 0; i < bytes.size(); i += 8)
          got[piece.segment.v].push_back(LoadU64(bytes.data() + i));
      }
      EXPECT_EQ(got, want);
      EXPECT_EQ(Echo(*batch), Numbered(count * dim));
    }
  }
}

TEST(Batch, AListIsGroupedAsItsKeysAre) {
  world::SplitMix64 random(5);
  for (const uint32_t dim : {1u, 3u, 4096u}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{500}}) {
      const auto routes = RoutesFor(3, 2);
      const auto placement = ring::Placement::Sparse(TableId(4), 3).value();
      std::vector<uint64_t> keys;
      for (size_t i = 0; i < count; ++i) keys.push_back(world::Uniform(random, 300));
      const std::vector<float> values = Numbered(count * dim);
      const auto want = GroupKeys(*routes, placement, dim, keys, values, AllocateFresh);
      const auto listed = GroupListed(*routes, placement, dim, keys);
      const auto push = PushListed(*routes, *listed, values, /*reads_back=*/true, AllocateFresh);
      EXPECT_EQ(push->keys, listed->keys) << "shared, so that a stream knows them again";
      EXPECT_EQ(listed->values, nullptr);
      EXPECT_EQ(push->places, want->places);
      ASSERT_EQ(push->pieces.size(), want->pieces.size());
      for (size_t i = 0; i < want->pieces.size(); ++i) {
        EXPECT_EQ(push->pieces[i].segment, want->pieces[i].segment);
        EXPECT_EQ(push->Keys(push->pieces[i]), want->Keys(want->pieces[i]));
        EXPECT_EQ(push->Values(push->pieces[i]), want->Values(want->pieces[i]));
      }
      EXPECT_EQ(Echo(*push), values);
    }
  }
}

TEST(Batch, AListIsGroupedAnewWhenSegmentsLieInAnotherOrder) {
  const auto placement = ring::Placement::Sparse(TableId(4), 3).value();
  std::vector<uint64_t> keys(300);
  std::iota(keys.begin(), keys.end(), 0);
  const ListedKeys list(placement, 2, keys);
  const auto one = RoutesFor(3, 1), alike = RoutesFor(3, 1), two = RoutesFor(3, 2);
  const auto grouped = list.Grouped(one);
  EXPECT_EQ(list.Grouped(one), grouped);
  EXPECT_EQ(list.Grouped(alike), grouped);
  ASSERT_NE(one->segments, two->segments);
  EXPECT_NE(list.Grouped(two), grouped);
  EXPECT_EQ(list.Grouped(two)->pieces.front().segment, two->segments.front());
  EXPECT_EQ(grouped->pieces.front().segment, one->segments.front()) << "who has it keeps it";
}

// The last block of all numbers is shorter than the others: a run of it does not go on with the first keys.
TEST(Batch, RunsEndWithTheLastBlockOfAllNumbers) {
  const uint64_t most = UINT64_MAX;
  const auto routes = RoutesFor(6, 2);
  const auto placement = ring::Placement::Ranged(TableId(3), 6, most, 5).value();
  std::vector<uint64_t> keys = {most - 10, most - 5};
  for (uint64_t key = 0; key < 30; ++key) keys.push_back(key);
  ASSERT_NE(placement.Of(keys.front()), placement.Of(0));
  const auto batch = GroupKeys(*routes, placement, 5, keys, {}, AllocateFresh);
  for (const Batch::Piece& piece : batch->pieces) {
    const absl::string_view bytes = batch->Keys(piece);
    for (size_t i = 0; i < bytes.size(); i += 8)
      EXPECT_EQ(placement.Of(LoadU64(bytes.data() + i)), piece.segment);
  }
}

TEST(Batch, SegmentsOfOneShardLieSideBySide) {
  const auto routes = RoutesFor(4, 3);
  const auto placement = ring::Placement::Sparse(TableId(4), 4).value();
  std::vector<uint64_t> keys(1000);
  std::iota(keys.begin(), keys.end(), 0);
  const auto batch = GroupKeys(*routes, placement, 1, keys, {}, AllocateFresh);
  std::vector<uint32_t> shards;
  for (const Batch::Piece& piece : batch->pieces)
    shards.push_back(routes->map.Primary(piece.segment).shard.v);
  EXPECT_TRUE(std::is_sorted(shards.begin(), shards.end()));
}

TEST(Batch, ALargeSegmentIsCutIntoSeveralPieces) {
  const auto routes = RoutesFor(0, 1);
  const auto placement = ring::Placement::Sparse(TableId(4), 0).value();
  std::vector<uint64_t> keys(50'000);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> values = Numbered(keys.size() * 16);
  const auto batch = GroupKeys(*routes, placement, 16, keys, values, AllocateFresh);
  EXPECT_GE(batch->pieces.size(), values.size() * 4 / kPushPieceBytes);
  for (const Batch::Piece& piece : batch->pieces) {
    EXPECT_LE(batch->KeyBytes(piece) + batch->ValueBytes(piece), kPushPieceBytes);
  }
  EXPECT_EQ(Echo(*batch), values);
}

TEST(Batch, ARangeIsCutAtBlocks) {
  const auto routes = RoutesFor(3, 2);
  const uint64_t rows = 100'000;
  const auto placement = ring::Placement::Ranged(TableId(9), 3, rows, 4).value();
  for (const auto& [first, count] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, rows}, {0, 0}, {17, 1}, {rows - 1, 1}, {4000, 5000}}) {
    const std::vector<float> values = Numbered(count * 4);
    const auto batch = GroupRange(*routes, placement, 4, first, count, values, AllocateFresh);
    std::vector<bool> seen(count);
    for (const Batch::Piece& piece : batch->pieces) {
      for (uint32_t i = 0; i < piece.entries; ++i) {
        const char* entry = batch->Keys(piece).data() + i * 16;
        const uint64_t from = LoadU64(entry);
        for (uint64_t k = from; k < from + LoadU64(entry + 8); ++k) {
          EXPECT_EQ(placement.Of(k), piece.segment);
          EXPECT_FALSE(seen[k - first]);
          seen[k - first] = true;
        }
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<ptrdiff_t>(count));
    EXPECT_EQ(Echo(*batch), values);
  }
}

TEST(Batch, ARangeInBatchesIsTheSameRangeInSeveral) {
  const auto routes = RoutesFor(3, 2);
  const uint64_t rows = 100'000;
  const uint32_t dim = 4;
  const auto placement = ring::Placement::Ranged(TableId(9), 3, rows, dim).value();
  for (const auto& [first, count] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, rows}, {0, 0}, {4000, 50'000}}) {
    const std::vector<float> values = Numbered(count * dim);
    for (const uint64_t bytes_max : {uint64_t{1}, uint64_t{200'000}, uint64_t{1} << 40}) {
      std::vector<float> seen(count * dim, -1);
      size_t batches = 0;
      GroupRangeInBatches(*routes, placement, dim, first, count, values, AllocateFresh, bytes_max,
                          [&](std::shared_ptr<const Batch> batch) {
                            ++batches;
                            EXPECT_TRUE(batch->entries <= 1 || batch->rows * batch->RowBytes() <= bytes_max);
                            for (const Batch::Piece& piece : batch->pieces) {
                              Scatter(*batch, piece, absl::Cord(batch->Values(piece)), seen.data());
                            }
                          });
      EXPECT_EQ(seen, values);
      EXPECT_EQ(batches > 1, count > 0 && values.size() * sizeof(float) > bytes_max);
    }
  }
}

}  // namespace
}  // namespace paceline::sdk
