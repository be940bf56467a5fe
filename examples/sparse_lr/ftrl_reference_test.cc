#include "examples/sparse_lr/ftrl_reference.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "examples/lib/schedule.h"
#include "examples/sparse_lr/logistic.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::Each;

// The formula as published, in double and from the whole history: w = argmin of the sum of g·w, plus
// half the sum of sigma_s (w - w_s)², plus the two penalties.
class SlowFtrl {
 public:
  explicit SlowFtrl(const FtrlOptions& options) : options_(options) {}

  void Take(double g) {
    double n = 0;
    for (double past : gradients_) {
      n += past * past;
    }
    sigmas_.push_back((std::sqrt(n + g * g) - std::sqrt(n)) / options_.alpha);
    weights_.push_back(w());
    gradients_.push_back(g);
  }

  // Minimises directly: the slope left and right of 0 decide whether 0 is best, else the slope's root.
  double w() const {
    double linear = 0, curve = options_.beta / options_.alpha + options_.lambda2;
    for (size_t s = 0; s < gradients_.size(); ++s) {
      linear += gradients_[s] - sigmas_[s] * weights_[s];
      curve += sigmas_[s];
    }
    if (linear + options_.lambda1 < 0) {
      return -(linear + options_.lambda1) / curve;
    }
    return linear - options_.lambda1 > 0 ? -(linear - options_.lambda1) / curve : 0;
  }

 private:
  FtrlOptions options_;
  std::vector<double> gradients_, sigmas_, weights_;  // weights_[s] is the one before gradient s
};

// Two clusters that a few columns tell apart, the other columns being noise.
Dataset Separable(size_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t label = random() % 2;
    absl::StrAppend(&text, label, " ", label + 1, ":0.7 ", 10 + random() % 20, ":0.5 ", 40 + random() % 20,
                    ":0.5\n");
  }
  absl::StatusOr<Dataset> data = ParseLibsvm(text, "text");
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : Dataset();
}

TEST(FtrlApplyTest, AgreesWithTheMinimisationItStandsFor) {
  std::mt19937 random(1);
  std::normal_distribution<float> gradient(0.1f, 1.0f);
  for (const FtrlOptions& options :
       {FtrlOptions{.alpha = 0.5f, .beta = 1.0f, .lambda1 = 0.0f, .lambda2 = 0.0f},
        FtrlOptions{.alpha = 1.0f, .beta = 0.2f, .lambda1 = 0.5f, .lambda2 = 0.0f},
        FtrlOptions{.alpha = 0.1f, .beta = 0.0f, .lambda1 = 3.0f, .lambda2 = 2.0f}}) {
    FtrlRow row;
    SlowFtrl slow(options);
    for (int step = 0; step < 200; ++step) {
      const float g = gradient(random);
      FtrlApply(options, g, &row);
      slow.Take(g);
      ASSERT_NEAR(row.w, slow.w(), 1e-4 * (1 + std::abs(slow.w()))) << "step " << step;
    }
  }
}

TEST(FtrlApplyTest, FirstStepByHand) {
  const FtrlOptions options = {.alpha = 0.5f, .beta = 1.0f, .lambda1 = 0.25f, .lambda2 = 0.5f};
  FtrlRow row;
  FtrlApply(options, 2.0f, &row);
  EXPECT_EQ(row.z, 2.0f);  // w was 0
  EXPECT_EQ(row.n, 4.0f);
  EXPECT_EQ(row.w, -1.75f / 6.5f);  // -(2 - 0.25) / ((1 + 2) / 0.5 + 0.5)
}

TEST(FtrlApplyTest, SecondStepUsesTheWeight) {
  const FtrlOptions options = {.alpha = 1.0f, .beta = 0.0f, .lambda1 = 0.0f, .lambda2 = 0.0f};
  FtrlRow row = {.w = -1.0f, .z = 3.0f, .n = 9.0f};
  FtrlApply(options, 4.0f, &row);
  EXPECT_EQ(row.n, 25.0f);
  EXPECT_EQ(row.z, 3.0f + (4.0f - 2.0f * -1.0f));  // sigma = 5 - 3
  EXPECT_EQ(row.w, -9.0f / 5.0f);
}

TEST(FtrlApplyTest, StaysZeroWithinLambda1) {
  const FtrlOptions options = {.alpha = 1.0f, .beta = 1.0f, .lambda1 = 1.0f, .lambda2 = 0.0f};
  FtrlRow row;
  FtrlApply(options, 1.0f, &row);
  EXPECT_EQ(row.w, 0.0f);  // |z| = lambda1 still counts as within
  FtrlApply(options, 0.5f, &row);
  EXPECT_LT(row.w, 0.0f);
  FtrlApply(options, -3.0f, &row);
  EXPECT_GT(row.w, 0.0f);
}

TEST(FtrlApplyTest, AZeroGradientChangesNothing) {
  const FtrlOptions options = {.alpha = 1.0f, .beta = 1.0f, .lambda1 = 0.1f, .lambda2 = 0.0f};
  FtrlRow row;
  FtrlApply(options, -3.0f, &row);
  const FtrlRow before = row;
  FtrlApply(options, 0.0f, &row);
  EXPECT_EQ(row.w, before.w);
  EXPECT_EQ(row.z, before.z);
  EXPECT_EQ(row.n, before.n);
}

TEST(FtrlLambda1Test, ScalesWithExamplesAndEpochs) {
  EXPECT_FLOAT_EQ(FtrlLambda1(8.86e-6, 11293, 5), 0.50028f);
}

TEST(TrainReferenceTest, LearnsAndLeavesNoiseOut) {
  const Dataset train = Separable(2000, 2), test = Separable(500, 3);
  ReferenceOptions options;
  options.ftrl.lambda1 = FtrlLambda1(2e-3, train.rows(), options.epochs);
  const std::vector<float> weights = TrainReference(train, options);
  ASSERT_EQ(weights.size(), train.column_count);
  const Metrics metrics = Evaluate(test, weights);
  EXPECT_LT(metrics.log_loss, 0.1);
  EXPECT_GT(metrics.auc, 0.999);
  EXPECT_LT(weights[1], 0.0f);
  EXPECT_GT(weights[2], 0.0f);
  EXPECT_THAT(absl::MakeConstSpan(weights).subspan(10), Each(0.0f));
}

// The lowest objective that coordinate search finds from `weights`.
double BestNearby(const Dataset& train, std::vector<float> weights, double l1) {
  double best = Objective(train, weights, l1);
  for (double step = 1; step > 1e-3; step *= 0.7) {
    for (float& w : weights) {
      for (double move : {step, -step, -static_cast<double>(w)}) {
        const float before = w;
        w += static_cast<float>(move);
        const double objective = Objective(train, weights, l1);
        w = objective < best ? w : before;
        best = std::min(best, objective);
      }
    }
  }
  return best;
}

TEST(TrainReferenceTest, ReachesTheOptimumWithoutPenalty) {
  // Per column, 3 of 4 labels agree: the optimum is finite.
  std::string text;
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&text, (i % 4 == 0) == (i % 3 == 0), " ", i % 3, ":1 ", 3 + i % 5, ":0.5\n");
  }
  absl::StatusOr<Dataset> train = ParseLibsvm(text, "text");
  ASSERT_TRUE(train.ok()) << train.status();
  const std::vector<float> weights =
      TrainReference(*train, {.ftrl = {}, .sgd_lr = {}, .epochs = 50, .batch_size = 4, .seed = 1});
  EXPECT_LT(Objective(*train, weights, 0), BestNearby(*train, weights, 0) * 1.01);
}

TEST(TrainReferenceTest, Lambda1HasTheScaleOfTheObjective) {
  const Dataset train = Separable(1000, 4);
  constexpr double kL1 = 5e-3;
  const auto reached = [&](double factor) {
    ReferenceOptions options;
    options.ftrl.lambda1 = FtrlLambda1(kL1 * factor, train.rows(), options.epochs);
    return Objective(train, TrainReference(train, options), kL1);
  };
  EXPECT_LT(reached(1), reached(0.2));
  EXPECT_LT(reached(1), reached(5));
}

TEST(TrainReferenceTest, IsTheSameEveryTimeAndMovesWithTheSeed) {
  const Dataset train = Separable(300, 5);
  ReferenceOptions options;
  const std::vector<float> first = TrainReference(train, options);
  EXPECT_EQ(TrainReference(train, options), first);
  options.seed = 2;
  EXPECT_NE(TrainReference(train, options), first);
}

// The plain loop: dense weights, one example after the other, no batches compacted.
TEST(TrainReferenceTest, AgreesWithThePlainLoop) {
  const Dataset train = Separable(97, 6);
  ReferenceOptions options = {
      .ftrl = {.lambda1 = 0.3f}, .sgd_lr = {}, .epochs = 2, .batch_size = 10, .seed = 3};
  std::vector<FtrlRow> model(train.column_count);
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const std::vector<uint32_t> order = EpochOrder(train.rows(), options.seed, epoch);
    for (size_t from = 0; from < order.size(); from += options.batch_size) {
      std::vector<float> gradient(train.column_count);
      for (size_t i = from; i < std::min(from + options.batch_size, order.size()); ++i) {
        double margin = 0;
        for (uint64_t k = train.row_begin[order[i]]; k < train.row_begin[order[i] + 1]; ++k) {
          margin += static_cast<double>(model[train.columns[k]].w) * train.values[k];
        }
        const double error = 1 / (1 + std::exp(-margin)) - train.labels[order[i]];
        for (uint64_t k = train.row_begin[order[i]]; k < train.row_begin[order[i] + 1]; ++k) {
          gradient[train.columns[k]] += static_cast<float>(error) * train.values[k];
        }
      }
      for (size_t c = 0; c < model.size(); ++c) {
        FtrlApply(options.ftrl, gradient[c], &model[c]);
      }
    }
  }
  const std::vector<float> weights = TrainReference(train, options);
  for (size_t c = 0; c < model.size(); ++c) {
    EXPECT_EQ(weights[c], model[c].w) << "column " << c;
  }
}

TEST(TrainReferenceTest, NoRowsGiveNoWeights) {
  EXPECT_TRUE(TrainReference(Dataset(), {}).empty());
}

}  // namespace
}  // namespace paceline::examples
