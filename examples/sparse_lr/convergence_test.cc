#include "examples/sparse_lr/convergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "examples/sparse_lr/ftrl_reference.h"
#include "examples/sparse_lr/logistic.h"
#include "examples/sparse_lr/training_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Penalties kL1{.l1 = 1e-5};

// Indicators of which each row has many, as one-hot encoded people have: the label follows some of them.
Dataset Indicators(uint32_t seed) {
  std::string text;
  uint32_t state = seed;
  const auto draw = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
  };
  for (int row = 0; row < 3000; ++row) {
    std::string columns;
    double margin = -0.5;
    for (uint32_t group = 0; group < 14; ++group) {
      const uint32_t value = std::min(draw(8), draw(8));
      absl::StrAppend(&columns, " ", group * 8 + value, ":1");
      margin += group < 4 ? (value < 2 ? 0.9 : -0.9) : 0;
    }
    absl::StrAppend(&text, draw(1000) < 1000 / (1 + std::exp(-margin)) ? "1" : "-1", columns, "\n");
  }
  return ParseLibsvm(text, "test").value();
}

Losses LossesOf(const TrainingSet& set, const Dataset& held_out, absl::Span<const float> model) {
  return {.objective = Objective(set.data, model, kL1), .held_out = Objective(held_out, model, 0.0)};
}

// The warning about a model that was trained with `options`.
std::string SaidOf(const ReferenceOptions& options) {
  const TrainingSet set = MakeTrainingSet(Indicators(1), true);
  const Dataset held_out = Indicators(2);
  const std::vector<float> model = TrainReference(set.data, options);
  return NotConverged(LossesOf(set, held_out, model),
                      LossesOf(set, held_out, Polished(set.data, model, kL1)));
}

TEST(ConvergenceTest, StepsThatAreTooLongAreSeen) {
  // The sum over four workers' batches of 16, each step a tenth of it.
  EXPECT_THAT(SaidOf({.ftrl = {}, .sgd_lr = 0.1f, .epochs = 5, .batch_size = 64, .seed = 1}),
              HasSubstr("has not converged"));
}

TEST(ConvergenceTest, AGoodModelGetsNoWarning) {
  const TrainingSet set = MakeTrainingSet(Indicators(1), true);
  const double norm = set.shape.row_norm;
  const FtrlOptions ftrl{.alpha = static_cast<float>(1 / norm),
                         .beta = static_cast<float>(0.2 * norm),
                         .lambda1 = FtrlLambda1(kL1.l1, set.data.rows(), 5)};
  for (const size_t batch : {16, 64, 256}) {
    EXPECT_THAT(SaidOf({.ftrl = ftrl, .sgd_lr = {}, .epochs = 5, .batch_size = batch, .seed = 1}), IsEmpty())
        << batch;
  }
}

TEST(ConvergenceTest, ThePenaltiesCount) {
  const Dataset data = Indicators(1);
  const std::vector<float> none(data.column_count, 0.0f);
  const auto squares = [](const std::vector<float>& model) {
    return std::inner_product(model.begin(), model.end(), model.begin(), 0.0);
  };
  const std::vector<float> free = Polished(data, none, {});
  EXPECT_LT(NonZeros(Polished(data, none, {.l1 = 0.02})), NonZeros(free));
  EXPECT_LT(squares(Polished(data, none, {.l2 = 1})), squares(free));
  const std::vector<float> ones(data.column_count, 1.0f);
  EXPECT_NEAR(Objective(data, ones, {.l2 = 2}) - Objective(data, ones, Penalties()), data.column_count, 1e-3);
}

TEST(ConvergenceTest, ItNeverGetsWorse) {
  const Dataset data = Indicators(1);
  const std::vector<float> wild(data.column_count, 50.0f);
  EXPECT_LE(Objective(data, Polished(data, wild, {}), Penalties()), Objective(data, wild, Penalties()));
}

TEST(ConvergenceTest, WarningsNameTheLosses) {
  EXPECT_THAT(NotConverged({0.8, 0.8}, {0.8, 0.8}), HasSubstr("weights of 0"));
  EXPECT_THAT(NotConverged({std::nan(""), 1}, {std::nan(""), 1}), HasSubstr("has not converged"));
  EXPECT_THAT(NotConverged({0.3, 0.3}, {0.2, 0.2}), HasSubstr("reach 0.2000"));
  EXPECT_THAT(NotConverged({0.3, 0.3}, {0.29, 0.29}), IsEmpty());
  EXPECT_THAT(NotConverged({0.3, 0.3}, {0.2, 0.31}), IsEmpty()) << "only the training set would gain";
}

}  // namespace
}  // namespace paceline::examples
