#include "libs/filter/residuals.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/filter/quantise.h"
#include "libs/filter/select.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

using Rows = std::map<uint64_t, std::vector<float>>;

constexpr uint64_t kRoom = 1 << 20;

Rows AllOf(Residuals& residuals) {
  Rows rows;
  uint64_t last = 0;
  residuals.TakeAll([&](uint64_t key, std::span<const float> row) {
    EXPECT_TRUE(rows.empty() || key > last) << "keys ascend";
    last = key;
    rows[key] = {row.begin(), row.end()};
  });
  EXPECT_EQ(residuals.rows(), 0u);
  return rows;
}

TEST(ResidualsTest, WhatIsKeptIsDueWithTheNextOfItsRow) {
  Residuals residuals(2, kRoom);
  ASSERT_TRUE(residuals.Keep(7, std::vector<float>{1, 2}));
  ASSERT_TRUE(residuals.Keep(7, std::vector<float>{10, 20}));  // named twice in one push
  ASSERT_TRUE(residuals.Keep(3, std::vector<float>{5, 6}));
  EXPECT_EQ(residuals.rows(), 2u);
  std::vector<float> row = {100, 200};
  residuals.AddKept(7, row);
  EXPECT_EQ(row, (std::vector<float>{111, 222}));
  residuals.AddKept(7, row);
  EXPECT_EQ(row, (std::vector<float>{111, 222})) << "only once";
  EXPECT_EQ(AllOf(residuals), (Rows{{3, {5, 6}}}));
}

TEST(ResidualsTest, ARowWithoutRoomIsNotKept) {
  Residuals residuals(1, 2 * (4 + 32));
  ASSERT_TRUE(residuals.Keep(1, std::vector<float>{1}));
  ASSERT_TRUE(residuals.Keep(2, std::vector<float>{2}));
  EXPECT_FALSE(residuals.Keep(3, std::vector<float>{3}));
  EXPECT_TRUE(residuals.Keep(2, std::vector<float>{2})) << "it has room";
  EXPECT_EQ(residuals.bytes(), 2u * (4 + 32));
  std::vector<float> row = {0};
  residuals.AddKept(1, row);
  EXPECT_TRUE(residuals.Keep(3, std::vector<float>{3})) << "room is free again";
  EXPECT_EQ(AllOf(residuals), (Rows{{2, {4}}, {3, {3}}}));
}

TEST(ResidualsTest, WhatIsNotFiniteIsNeverKept) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Residuals residuals(1, kRoom);
  EXPECT_FALSE(residuals.Keep(1, std::vector<float>{kInfinity}));
  EXPECT_FALSE(residuals.Keep(1, std::vector<float>{std::nanf("")}));
  ASSERT_TRUE(residuals.Keep(1, std::vector<float>{kLargest}));
  EXPECT_FALSE(residuals.Keep(1, std::vector<float>{kLargest}));
  std::vector<float> row = {kLargest};
  residuals.AddKept(1, row);
  EXPECT_EQ(row[0], kLargest) << "the sum is too large: both stay";
  EXPECT_EQ(AllOf(residuals), (Rows{{1, {kLargest}}}));
}

enum class How { kF16, kBf16, kInt8, kTopK, kSkip };

// One push through a filter, as a client does it: what is sent, by place.
std::vector<std::vector<float>> Through(How how, Residuals& residuals, const std::vector<uint64_t>& keys,
                                        std::vector<std::vector<float>> rows, world::Random& random) {
  std::vector<float> magnitudes;
  for (size_t i = 0; i < keys.size(); ++i) {
    residuals.AddKept(keys[i], rows[i]);
    magnitudes.push_back(MagnitudeOf(rows[i]));
  }
  const std::vector<bool> largest = TopK(0.25).Choose(magnitudes);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<float> due = rows[i];
    if (how == How::kTopK || how == How::kSkip) {
      const bool sends = how == How::kTopK ? largest[i] : RandomSkip(0.5).Sends(random);
      rows[i].assign(due.size(), 0);
      if (sends) std::swap(rows[i], due);
    } else {
      Quantise(how == How::kF16    ? Precision::kF16
               : how == How::kBf16 ? Precision::kBf16
                                   : Precision::kInt8,
               rows[i]);
      for (size_t c = 0; c < due.size(); ++c) due[c] -= rows[i][c];
    }
    EXPECT_TRUE(residuals.Keep(keys[i], due));
  }
  return rows;
}

// sent + kept == due, bit by bit, where due = given + kept before, one addition in f32.
TEST(ResidualsTest, NothingIsLost) {
  for (const How how : {How::kF16, How::kBf16, How::kInt8, How::kTopK, How::kSkip}) {
    SCOPED_TRACE(static_cast<int>(how));
    world::SplitMix64 random(1800 + static_cast<uint64_t>(how));
    Residuals residuals(3, kRoom);
    std::map<uint64_t, std::vector<float>> kept;
    for (int push = 0; push < 2000; ++push) {
      std::vector<uint64_t> keys;
      std::vector<std::vector<float>> given;
      for (uint64_t key = world::Uniform(random, 4); key < 40; key += 1 + world::Uniform(random, 8)) {
        keys.push_back(key);
        given.emplace_back();
        const int scale = static_cast<int>(world::Uniform(random, 24)) - 14;
        for (int c = 0; c < 3; ++c) {
          given.back().push_back(static_cast<float>(std::ldexp(world::UnitInterval(random) - 0.5, scale)));
        }
      }
      const std::vector<std::vector<float>> sent = Through(how, residuals, keys, given, random);
      for (size_t i = 0; i < keys.size(); ++i) {
        std::vector<float>& rest = kept[keys[i]];
        rest.resize(3);
        for (size_t c = 0; c < 3; ++c) {
          const float due = given[i][c] + rest[c];
          const double exactly = static_cast<double>(due) - sent[i][c];
          rest[c] = static_cast<float>(exactly);
          ASSERT_EQ(rest[c], exactly) << "f32 holds what is left of " << due << " without " << sent[i][c];
        }
      }
    }
    for (auto& [key, rest] : AllOf(residuals)) ASSERT_EQ(rest, kept[key]) << "row " << key;
  }
}

// The same for what integers are used for: sums that must be right to the last bit.
TEST(ResidualsTest, SumsOfIntegersAgree) {
  for (const How how : {How::kF16, How::kBf16, How::kInt8, How::kTopK, How::kSkip}) {
    SCOPED_TRACE(static_cast<int>(how));
    world::SplitMix64 random(2800 + static_cast<uint64_t>(how));
    Residuals residuals(1, kRoom);
    std::map<uint64_t, double> sum_given, sum_sent;
    for (int push = 0; push < 1000; ++push) {
      std::vector<uint64_t> keys;
      std::vector<std::vector<float>> given;
      for (uint64_t key = 0; key < 16; ++key) {
        if (world::Chance(random, 0.5)) continue;
        keys.push_back(key);
        given.push_back({static_cast<float>(world::Uniform(random, 4001)) - 2000});
        sum_given[key] += given.back()[0];
      }
      const std::vector<std::vector<float>> sent = Through(how, residuals, keys, given, random);
      for (size_t i = 0; i < keys.size(); ++i) sum_sent[keys[i]] += sent[i][0];
    }
    residuals.TakeAll([&](uint64_t key, std::span<const float> row) { sum_sent[key] += row[0]; });
    EXPECT_EQ(sum_sent, sum_given);
  }
}

}  // namespace
}  // namespace paceline::filter
