#include "examples/matrix_factorization/factors.h"

#include <bit>
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(TrainOnTest, AStepByHand) {
  std::vector<float> users = {0.5f, 1, 2}, items = {-0.25f, 3, -1};
  const std::vector<Rating> ratings = {{0, 0, 4}};
  const double loss =
      TrainOn(ratings, 2, {.lr = 0.5f, .reg = 0.25f}, {absl::MakeSpan(users), absl::MakeSpan(items), 3});
  // The prediction is 2 + 0.5 - 0.25 + 3 - 2 = 3.25, the error 0.75.
  EXPECT_EQ(loss, 0.5625);
  EXPECT_THAT(users, ElementsAre(0.5f + 0.5f * (0.75f - 0.125f), 1 + 0.5f * (2.25f - 0.25f),
                                 2 + 0.5f * (-0.75f - 0.5f)));
  EXPECT_THAT(items, ElementsAre(-0.25f + 0.5f * (0.75f + 0.0625f), 3 + 0.5f * (0.75f - 0.75f),
                                 -1 + 0.5f * (1.5f + 0.25f)));
}

TEST(TrainOnTest, TheStepIsHalfTheSlope) {
  const std::vector<float> users = {0.3f, 0.7f}, items = {-0.2f, 0.4f};
  const Rating rating = {0, 0, 2};
  const Steps steps = {.lr = 1, .reg = 0.5f};
  const auto loss = [&](double bu, double p, double bi, double q) {
    const double error = 2 - (1 + bu + bi + p * q);
    return error * error + 0.5 * (bu * bu + p * p + bi * bi + q * q);
  };
  std::vector<float> u = users, v = items;
  TrainOn({rating}, 1, steps, {absl::MakeSpan(u), absl::MakeSpan(v), 2});
  constexpr double h = 1e-5;
  const double at = loss(users[0], users[1], items[0], items[1]);
  EXPECT_NEAR(users[0] - u[0], (loss(users[0] + h, users[1], items[0], items[1]) - at) / h / 2, 1e-3);
  EXPECT_NEAR(users[1] - u[1], (loss(users[0], users[1] + h, items[0], items[1]) - at) / h / 2, 1e-3);
  EXPECT_NEAR(items[0] - v[0], (loss(users[0], users[1], items[0] + h, items[1]) - at) / h / 2, 1e-3);
  EXPECT_NEAR(items[1] - v[1], (loss(users[0], users[1], items[0], items[1] + h) - at) / h / 2, 1e-3);
}

TEST(RootMeanSquaredErrorTest, PredictionsStayWhereRatingsAre) {
  std::vector<float> users = {10, 0}, items = {0, 0};
  SplitRatings split;
  split.mean = 3;
  split.lowest = 1;
  split.highest = 5;
  const FactorRows rows = {absl::MakeSpan(users), absl::MakeSpan(items), 2};
  EXPECT_DOUBLE_EQ(RootMeanSquaredError({{0, 0, 4}, {0, 0, 5}}, split, rows), std::sqrt(0.5));
  EXPECT_EQ(RootMeanSquaredError({}, split, rows), 0);
}

// Bits of Uniform{-0.5, 0.25} in the tests of the initialisers, brought to this range.
TEST(StartRowsTest, AreThoseOfTheTable) {
  const auto scaled = [](uint32_t bits) {
    return 2 * kStart * (std::bit_cast<float>(bits) + 0.5f) / 0.75f - kStart;
  };
  EXPECT_NEAR(StartRows(0, {uint64_t{0}}, 2)[0], scaled(0x3e2661f9), 1e-7);
  EXPECT_NEAR(StartRows(0, {uint64_t{0}}, 2)[1], scaled(0xbe349625), 1e-7);
  EXPECT_NEAR(StartRows(1, {uint64_t{0}}, 1)[0], scaled(0xbed8c062), 1e-7);
  EXPECT_NEAR(StartRows(42, {uint64_t{0}, uint64_t{7}}, 4)[7], scaled(0x3d51e966), 1e-7);
}

TEST(StartRowsTest, SeedsOfTablesDifferAndAreNever0) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    EXPECT_NE(UsersSeed(seed), 0u);
    EXPECT_NE(ItemsSeed(seed), 0u);
    EXPECT_NE(UsersSeed(seed), ItemsSeed(seed));
  }
}

TEST(RatingBatchesTest, NumberWhatOccurs) {
  Ratings ratings;
  ratings.users = {10, 20, 30};
  ratings.items = {100, 200};
  const std::vector<Rating> train = {{0, 1, 1}, {2, 1, 2}, {2, 0, 3}};
  RatingBatches batches(&ratings, &train);
  RatingBatch batch;
  for (int again = 0; again < 2; ++again) {
    batches.Build({1, 2}, &batch);
    EXPECT_THAT(batch.user_keys, ElementsAre(30));
    EXPECT_THAT(batch.item_keys, ElementsAre(200, 100));
    ASSERT_THAT(batch.ratings, SizeIs(2));
    EXPECT_EQ(batch.ratings[1].user, 0u);
    EXPECT_EQ(batch.ratings[1].item, 1u);
    EXPECT_EQ(batch.ratings[1].value, 3);
  }
  batches.Build({}, &batch);
  EXPECT_THAT(batch.user_keys, SizeIs(0));
}

TEST(DivergenceWatchTest, ErrorsFarBeyondTheVarianceAreReported) {
  DivergenceWatch watch(1.25);
  EXPECT_TRUE(watch.Add(1000, 1500).ok());
  EXPECT_TRUE(watch.Add(500, 50'000).ok()) << "too few to tell";
  const absl::Status status = watch.Add(500, 50'000);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mean squared error of the last 1000 ratings is 100"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower --lr"));
}

TEST(DivergenceWatchTest, WhatIsNotFiniteIsReportedAtOnce) {
  DivergenceWatch watch(1);
  EXPECT_FALSE(watch.Add(1, std::numeric_limits<double>::quiet_NaN()).ok());
}

}  // namespace
}  // namespace paceline::examples
