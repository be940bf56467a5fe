#include "paceline/kkt.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline {
namespace {

using Keys = std::vector<uint64_t>;
using Values = std::vector<float>;

TEST(KktFilterTest, WhatStaysZeroIsNotSent) {
  KktFilter filter({.lambda = 1, .slack = 0.25f});
  Keys keys = {1, 2, 3, 4, 5, 6};
  Values gradients = {0.75f, -0.75f, 0.8f, -2, 0.1f, std::numeric_limits<float>::quiet_NaN()};
  filter.Filter(Values{0, 0, 0, 0, 0.5f, 0}, &keys, &gradients);
  EXPECT_EQ(keys, (Keys{3, 4, 5, 6}))
      << "beyond what the slack leaves, of a weight that is not 0, not a number";
  EXPECT_EQ((Values{gradients[0], gradients[1], gradients[2]}), (Values{0.8f, -2, 0.1f}));
  EXPECT_EQ(filter.given(), 6u);
  EXPECT_EQ(filter.left_out(), 2u);
}

TEST(KktFilterTest, OfSumsWhatIsNotSentIsKept) {
  KktFilter filter({.lambda = 1, .sums = true});
  Keys keys = {1, 2};
  Values gradients = {0.5f, 0.25f};
  filter.Filter(Values{0, 0}, &keys, &gradients);
  EXPECT_TRUE(keys.empty());
  keys = {1, 2};
  gradients = {0.75f, 0.25f};
  filter.Filter(Values{0, 0}, &keys, &gradients);
  EXPECT_EQ(keys, Keys{1});
  EXPECT_EQ(gradients, Values{1.25f});
  keys = {2};
  gradients = {0.125f};
  filter.Filter(Values{-3}, &keys, &gradients);
  EXPECT_EQ(gradients, Values{0.625f}) << "the weight is not 0 any more";
}

TEST(KktFilterTest, AfterTheResetEverythingIsSent) {
  KktFilter filter({.lambda = 1, .sums = true});
  Keys keys = {7, 3};
  Values gradients = {0.5f, 0.25f};
  filter.Filter(Values{0, 0}, &keys, &gradients);
  filter.Reset(&keys, &gradients);
  EXPECT_EQ(keys, (Keys{3, 7}));
  EXPECT_EQ(gradients, (Values{0.25f, 0.5f}));
  filter.Filter(Values{0, 0}, &keys, &gradients);
  EXPECT_EQ(keys, (Keys{3, 7}));
  filter.Reset(&keys, &gradients);
  EXPECT_TRUE(keys.empty());
}

TEST(KktFilterTest, WithoutRoomGradientsAreSent) {
  KktFilter filter({.lambda = 1, .sums = true, .kept_max = 1});
  Keys keys = {1, 2};
  Values gradients = {0.5f, 0.25f};
  filter.Filter(Values{0, 0}, &keys, &gradients);
  EXPECT_EQ(keys, Keys{2});
}

// What is sent and what is kept of a coordinate are what was given, of gradients whose sums f32 holds.
TEST(KktFilterTest, NothingOfSumsIsLost) {
  world::SplitMix64 random(18);
  KktFilter filter({.lambda = 8, .slack = 2, .sums = true});
  std::map<uint64_t, float> given, sent;
  Keys keys;
  Values gradients;
  for (int push = 0; push < 3000; ++push) {
    Values weights;
    keys.clear();
    gradients.clear();
    for (uint64_t key = 0; key < 20; ++key) {
      if (world::Chance(random, 0.5)) continue;
      keys.push_back(key);
      weights.push_back(world::Chance(random, 0.1) ? 1.0f : 0.0f);
      gradients.push_back(static_cast<float>(world::Uniform(random, 17)) / 4 - 2);
      given[key] += gradients.back();
    }
    filter.Filter(weights, &keys, &gradients);
    for (size_t i = 0; i < keys.size(); ++i) sent[keys[i]] += gradients[i];
  }
  EXPECT_GT(filter.left_out(), filter.given() / 2);
  filter.Reset(&keys, &gradients);
  for (size_t i = 0; i < keys.size(); ++i) sent[keys[i]] += gradients[i];
  EXPECT_EQ(sent, given);
}

// Proximal gradient descent on ½‖Xw − y‖² / n + λ‖w‖₁: without slack the filter changes not a bit of the
// model.
TEST(KktFilterTest, AProximalStepDoesNotMissWhatIsNotSent) {
  constexpr size_t kRows = 60, kColumns = 40;
  constexpr float kLambda = 0.1f, kRate = 0.2f;
  world::SplitMix64 random(19);
  std::vector<Values> x(kRows, Values(kColumns));
  Values y(kRows);
  for (size_t r = 0; r < kRows; ++r) {
    for (float& value : x[r]) value = static_cast<float>(world::UnitInterval(random)) - 0.5f;
    y[r] = 3 * x[r][0] - 2 * x[r][1] + 0.1f * x[r][2];
  }
  const auto gradient_at = [&](const Values& w) {
    Values gradient(kColumns);
    for (size_t r = 0; r < kRows; ++r) {
      float error = -y[r];
      for (size_t c = 0; c < kColumns; ++c) error += x[r][c] * w[c];
      for (size_t c = 0; c < kColumns; ++c) gradient[c] += error * x[r][c] / kRows;
    }
    return gradient;
  };
  const auto step = [&](float& w, float g) {
    const float moved = w - kRate * g;
    w = std::copysign(std::max(std::abs(moved) - kRate * kLambda, 0.0f), moved);
  };
  Values plain(kColumns), filtered(kColumns);
  KktFilter filter({.lambda = kLambda});
  for (int round = 0; round < 200; ++round) {
    const Values of_plain = gradient_at(plain);
    for (size_t c = 0; c < kColumns; ++c) step(plain[c], of_plain[c]);
    Keys keys;
    for (uint64_t c = 0; c < kColumns; ++c) keys.push_back(c);
    Values gradient = gradient_at(filtered);
    filter.Filter(filtered, &keys, &gradient);
    for (size_t i = 0; i < keys.size(); ++i) step(filtered[keys[i]], gradient[i]);
  }
  EXPECT_EQ(plain, filtered);
  EXPECT_NE(filtered[0], 0);
  EXPECT_GT(filter.left_out(), filter.given() / 2);
}

}  // namespace
}  // namespace paceline
