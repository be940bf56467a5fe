#include "libs/base/space_saving.h"

#include <cmath>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Key = SpaceSaving::Key;

// What every key weighs.
class Exact {
 public:
  void Add(Key key, double weight) { weights_[key] += weight, total_ += weight; }
  void Scale(double factor) {
    for (auto& [key, weight] : weights_) weight *= factor;
    total_ *= factor;
  }
  double total() const { return total_; }
  const std::map<Key, double>& weights() const { return weights_; }

 private:
  std::map<Key, double> weights_;
  double total_ = 0;
};

void ExpectWithinBounds(const SpaceSaving& sketch, const Exact& exact, size_t counters) {
  const double slack = 1e-9 * (1 + exact.total());
  EXPECT_NEAR(sketch.total(), exact.total(), slack);
  std::map<Key, SpaceSaving::Counter> counted;
  for (const auto& counter : sketch.Heaviest(counters)) counted[counter.key] = counter;
  EXPECT_LE(counted.size(), counters);
  for (const auto& [key, weight] : exact.weights()) {
    const auto it = counted.find(key);
    if (it == counted.end()) {
      EXPECT_LE(weight, exact.total() / static_cast<double>(counters) + slack) << key.key;
      continue;
    }
    EXPECT_LE(weight, it->second.weight + slack) << key.key;
    EXPECT_GE(weight, it->second.weight - it->second.error - slack) << key.key;
  }
}

TEST(SpaceSavingTest, IsWithinItsBoundsOfWhatWasAdded) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const size_t counters = 1 + random() % 20;
    const double skew = static_cast<double>(random() % 5);
    SpaceSaving sketch(counters);
    Exact exact;
    for (int step = 0; step < 3000; ++step) {
      const double unit = static_cast<double>(random() % 1000) / 1000;
      const Key key{.table = static_cast<uint32_t>(random() % 2),
                    .key = static_cast<uint64_t>(100 * std::pow(unit, 1 + skew))};
      const double weight = 1 + static_cast<double>(random() % 3);
      sketch.Add(key, weight);
      exact.Add(key, weight);
      if (step % 100 != 99) continue;
      ExpectWithinBounds(sketch, exact, counters);
      const double factor = static_cast<double>(random() % 11) / 10;
      sketch.Scale(factor);
      exact.Scale(factor);
      ExpectWithinBounds(sketch, exact, counters);
    }
  }
}

TEST(SpaceSavingTest, FewerKeysThanCountersAreExact) {
  SpaceSaving sketch(4);
  EXPECT_THAT(sketch.Heaviest(4), IsEmpty());
  for (int i = 0; i < 10; ++i) sketch.Add({.table = 1, .key = static_cast<uint64_t>(i % 3)}, 1);
  const auto heaviest = sketch.Heaviest(2);
  ASSERT_THAT(heaviest, SizeIs(2));
  EXPECT_EQ(heaviest[0].key.key, 0u);
  EXPECT_EQ(heaviest[0].weight, 4);
  EXPECT_EQ(heaviest[0].error, 0);
  EXPECT_EQ(heaviest[1].key.key, 1u) << "of equal ones the smaller key";
}

TEST(SpaceSavingTest, AKeyThatWasHotFades) {
  SpaceSaving sketch(4);
  sketch.Add({.table = 1, .key = 7}, 1000);
  for (int i = 0; i < 20; ++i) sketch.Scale(0.5);
  sketch.Add({.table = 1, .key = 8}, 1);
  EXPECT_EQ(sketch.Heaviest(1)[0].key.key, 8u);
}

}  // namespace
}  // namespace paceline
