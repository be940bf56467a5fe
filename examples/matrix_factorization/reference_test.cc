#include "examples/matrix_factorization/reference.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "examples/lib/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;

// Ratings that two hidden factors, biases and some noise make up.
Ratings Hidden() {
  constexpr int kUsers = 60, kItems = 50;
  Random random(7);
  const auto draw = [&] { return 2 * random.Unit() - 1; };
  std::vector<double> p, q;
  for (int i = 0; i < 3 * kUsers; ++i) p.push_back(draw());
  for (int i = 0; i < 3 * kItems; ++i) q.push_back(draw());
  std::string text;
  for (int u = 0; u < kUsers; ++u) {
    for (int i = 0; i < kItems; ++i) {
      if (random.Below(3) == 0) continue;
      const double *a = &p[3 * u], *b = &q[3 * i];
      absl::StrAppend(&text, 100 + u, " ", 500 + i, " ",
                      3 + a[0] + b[0] + 1.5 * (a[1] * b[1] + a[2] * b[2]) + 0.1 * draw(), "\n");
    }
  }
  return ParseRatings(text, "hidden").value();
}

FactorOptions Options() {
  FactorOptions options;
  options.rank = 4;
  options.epochs = 60;
  options.lr = 0.05f;
  options.decay = 0.98f;
  options.reg = 0.02f;
  return options;
}

TEST(FactorReferenceTest, FindsWhatMadeTheRatings) {
  const Ratings ratings = Hidden();
  const SplitRatings split = Split(ratings, 0.1, 1);
  FactorModel start = StartModel(Options(), ratings);
  EXPECT_GT(RootMeanSquaredError(split.test, split, start.rows()), 0.8);
  absl::StatusOr<FactorReference> reference = TrainReference(Options(), ratings, split);
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_LT(RootMeanSquaredError(split.test, split, reference->model.rows()), 0.2);
  ASSERT_EQ(reference->curve.size(), 60u);
  EXPECT_LT(reference->curve.back().loss, 0.02);
  EXPECT_EQ(reference->curve.back().examples, 60 * split.train.size());
}

TEST(FactorReferenceTest, IsTheSameEveryTimeAndMovesWithTheSeed) {
  const Ratings ratings = Hidden();
  const SplitRatings split = Split(ratings, 0.1, 1);
  FactorOptions options = Options();
  options.epochs = 2;
  const std::vector<float> first = TrainReference(options, ratings, split)->model.items;
  EXPECT_EQ(TrainReference(options, ratings, split)->model.items, first);
  options.seed = 2;
  EXPECT_NE(TrainReference(options, ratings, split)->model.items, first);
}

TEST(FactorReferenceTest, StepsThatAreTooLongAreReported) {
  const Ratings ratings = Hidden();
  FactorOptions options = Options();
  options.lr = 2;
  const absl::Status status = TrainReference(options, ratings, Split(ratings, 0.1, 1)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("diverges"));
}

TEST(StepsOfTest, Decay) {
  FactorOptions options;
  options.lr = 1;
  options.decay = 0.5f;
  EXPECT_EQ(StepsOf(options, 0).lr, 1);
  EXPECT_EQ(StepsOf(options, 3).lr, 0.125f);
}

}  // namespace
}  // namespace paceline::examples
