#include "examples/sparse_lr/logistic.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Dataset Parsed(absl::string_view text) {
  absl::StatusOr<Dataset> data = ParseLibsvm(text, "text");
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : Dataset();
}

// Rows of a few random columns below `columns`, about half of them positive.
Dataset RandomData(size_t rows, uint32_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<uint32_t> column(0, columns - 1);
  std::normal_distribution<float> value;
  std::string text;
  for (size_t row = 0; row < rows; ++row) {
    std::set<uint32_t> chosen;
    while (chosen.size() < 6) {
      chosen.insert(column(random));
    }
    absl::StrAppend(&text, random() % 2);
    for (uint32_t c : chosen) {
      absl::StrAppend(&text, " ", c, ":", value(random));
    }
    absl::StrAppend(&text, "\n");
  }
  return Parsed(text);
}

std::vector<float> RandomWeights(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value;
  std::vector<float> weights(n);
  for (float& w : weights) {
    w = value(random);
  }
  return weights;
}

// The plainest form of the loss, in double: -log of the probability of the label.
double SlowLoss(const Batch& batch, const std::vector<double>& weights) {
  double loss = 0;
  for (size_t row = 0; row < batch.rows(); ++row) {
    double margin = 0;
    for (uint32_t k = batch.row_begin[row]; k < batch.row_begin[row + 1]; ++k) {
      margin += weights[batch.local[k]] * static_cast<double>(batch.values[k]);
    }
    const double p = 1 / (1 + std::exp(-margin));
    loss -= batch.labels[row] == 1 ? std::log(p) : std::log(1 - p);
  }
  return loss;
}

// Of all pairs of a positive and a negative, the share in the right order.
double SlowAuc(const std::vector<double>& scores, const std::vector<float>& labels) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] == 1 && labels[j] == 0) {
        pairs += 1;
        won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
    }
  }
  return won / pairs;
}

TEST(BatchBuilderTest, NumbersColumns) {
  const Dataset data = Parsed("1 5:1 70:2 200:3\n0 0:4\n0 5:5 64:6 200:7\n");
  BatchBuilder builder(&data);
  Batch batch;
  builder.Build({2, 0}, &batch);
  EXPECT_THAT(batch.keys, ElementsAre(5, 64, 70, 200));
  EXPECT_THAT(batch.row_begin, ElementsAre(0, 3, 6));
  EXPECT_THAT(batch.local, ElementsAre(0, 1, 3, 0, 2, 3));
  EXPECT_THAT(batch.values, ElementsAre(5, 6, 7, 1, 2, 3));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
}

TEST(BatchBuilderTest, ReplacesTheContentOfTheBatch) {
  const Dataset data = Parsed("1 5:1\n0 63:2\n");
  BatchBuilder builder(&data);
  Batch batch;
  builder.Build({0, 1}, &batch);
  builder.Build({1}, &batch);
  EXPECT_THAT(batch.keys, ElementsAre(63));
  EXPECT_EQ(batch.rows(), 1u);
  builder.Build({}, &batch);
  EXPECT_THAT(batch.keys, IsEmpty());
  EXPECT_EQ(batch.rows(), 0u);
}

TEST(BatchBuilderTest, ARowMayOccurTwice) {
  const Dataset data = Parsed("1 5:1\n");
  BatchBuilder builder(&data);
  Batch batch;
  builder.Build({0, 0}, &batch);
  EXPECT_THAT(batch.keys, ElementsAre(5));
  EXPECT_THAT(batch.local, ElementsAre(0, 0));
}

TEST(BatchBuilderTest, AgreesWithSortingOnRandomData) {
  const Dataset data = RandomData(200, 500, 1);
  BatchBuilder builder(&data);
  Batch batch;
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint32_t> rows(random() % 20);
    std::set<uint64_t> expected;
    std::vector<uint64_t> columns;
    for (uint32_t& row : rows) {
      row = random() % 200;
      columns.insert(columns.end(), &data.columns[data.row_begin[row]],
                     &data.columns[data.row_begin[row]] + 6);
    }
    expected.insert(columns.begin(), columns.end());
    builder.Build(rows, &batch);
    EXPECT_EQ(batch.keys, std::vector<uint64_t>(expected.begin(), expected.end()));
    ASSERT_EQ(batch.local.size(), columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      EXPECT_EQ(batch.keys[batch.local[i]], columns[i]);
    }
  }
}

TEST(ComputeGradientTest, AgreesWithDifferencesOfTheLoss) {
  const Dataset data = RandomData(12, 30, 3);
  BatchBuilder builder(&data);
  Batch batch;
  builder.Build({0, 3, 4, 5, 7, 11}, &batch);
  const std::vector<float> weights = RandomWeights(batch.keys.size(), 4);
  std::vector<float> gradient(weights.size(), 99.0f);
  const double loss = ComputeGradient(batch, weights, absl::MakeSpan(gradient));
  std::vector<double> moved(weights.begin(), weights.end());
  EXPECT_NEAR(loss, SlowLoss(batch, moved), 1e-9);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < weights.size(); ++i) {
    moved[i] = weights[i] + kStep;
    const double above = SlowLoss(batch, moved);
    moved[i] = weights[i] - kStep;
    const double below = SlowLoss(batch, moved);
    moved[i] = weights[i];
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-5) << "key " << batch.keys[i];
  }
}

TEST(ComputeGradientTest, SumsOverTheBatch) {
  const Dataset data = Parsed("1 1:2\n0 1:2\n");
  BatchBuilder builder(&data);
  Batch batch;
  float gradient = 0;
  builder.Build({0, 0, 0}, &batch);
  EXPECT_DOUBLE_EQ(ComputeGradient(batch, {0.0f}, absl::MakeSpan(&gradient, 1)), 3 * std::log(2.0));
  EXPECT_FLOAT_EQ(gradient, -3.0f);  // three times (1/2 - 1)·2
  builder.Build({0, 1}, &batch);
  ComputeGradient(batch, {0.0f}, absl::MakeSpan(&gradient, 1));
  EXPECT_FLOAT_EQ(gradient, 0.0f);
}

TEST(ComputeGradientTest, StaysFiniteAtAnyMargin) {
  const Dataset data = Parsed("1 1:1000\n0 1:1000\n");
  BatchBuilder builder(&data);
  Batch batch;
  builder.Build({0, 1}, &batch);
  float gradient = 0;
  EXPECT_DOUBLE_EQ(ComputeGradient(batch, {10.0f}, absl::MakeSpan(&gradient, 1)), 10'000.0);
  EXPECT_FLOAT_EQ(gradient, 1000.0f);
  EXPECT_DOUBLE_EQ(ComputeGradient(batch, {-10.0f}, absl::MakeSpan(&gradient, 1)), 10'000.0);
  EXPECT_FLOAT_EQ(gradient, -1000.0f);
}

TEST(EvaluateTest, WorkedExample) {
  const Dataset data = Parsed("1 0:1\n1 1:1\n0 2:1\n0 0:1 2:1\n");
  const Metrics metrics = Evaluate(data, {2.0f, -1.0f, -3.0f});  // margins 2, -1, -3, -1
  const double loss = std::log1p(std::exp(-2.0)) + std::log1p(std::exp(1.0)) + std::log1p(std::exp(-3.0)) +
                      std::log1p(std::exp(-1.0));
  EXPECT_DOUBLE_EQ(metrics.log_loss, loss / 4);
  EXPECT_DOUBLE_EQ(metrics.accuracy, 0.75);
  EXPECT_DOUBLE_EQ(metrics.auc, 3.5 / 4);  // a tie at -1
}

TEST(EvaluateTest, ColumnsBeyondTheModelWeighNothing) {
  const Dataset data = Parsed("1 0:1 900:5\n0 900:5\n");
  const Metrics metrics = Evaluate(data, {1.0f});
  EXPECT_DOUBLE_EQ(metrics.log_loss, (std::log1p(std::exp(-1.0)) + std::log(2.0)) / 2);
  EXPECT_DOUBLE_EQ(metrics.auc, 1.0);
}

TEST(EvaluateTest, NoRows) {
  const Metrics metrics = Evaluate(Dataset(), {1.0f});
  EXPECT_EQ(metrics.log_loss, 0);
  EXPECT_EQ(metrics.auc, 0.5);
  EXPECT_EQ(metrics.accuracy, 0);
}

TEST(EvaluateTest, AgreesWithTheLossOfABatch) {
  const Dataset data = RandomData(40, 30, 6);
  const std::vector<float> weights = RandomWeights(data.column_count, 7);
  BatchBuilder builder(&data);
  Batch batch;
  std::vector<uint32_t> all(data.rows());
  for (uint32_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  builder.Build(all, &batch);
  std::vector<double> of_batch;
  for (uint64_t key : batch.keys) {
    of_batch.push_back(weights[key]);
  }
  EXPECT_NEAR(Evaluate(data, weights).log_loss, SlowLoss(batch, of_batch) / 40, 1e-9);
}

TEST(AreaUnderRocTest, AgreesWithAllPairs) {
  std::mt19937 random(8);
  for (int round = 0; round < 30; ++round) {
    std::vector<double> scores{0, 1};
    std::vector<float> labels{1, 0};
    for (size_t i = 0; i < 60; ++i) {
      scores.push_back(static_cast<double>(random() % (round + 1)));  // ties from all to few
      labels.push_back(static_cast<float>(random() % 2));
    }
    EXPECT_NEAR(AreaUnderRoc(scores, labels), SlowAuc(scores, labels), 1e-12);
  }
}

TEST(AreaUnderRocTest, Extremes) {
  EXPECT_EQ(AreaUnderRoc({1.0, 2.0}, {0.0f, 1.0f}), 1.0);
  EXPECT_EQ(AreaUnderRoc({2.0, 1.0}, {0.0f, 1.0f}), 0.0);
  EXPECT_EQ(AreaUnderRoc({1.0, 1.0}, {0.0f, 1.0f}), 0.5);
  EXPECT_EQ(AreaUnderRoc({1.0, 2.0}, {1.0f, 1.0f}), 0.5);
  EXPECT_EQ(AreaUnderRoc({}, {}), 0.5);
}

TEST(ObjectiveTest, AddsTheNorm) {
  const Dataset data = Parsed("1 0:1\n0 1:1\n");
  const std::vector<float> weights = {1.5f, -0.5f};
  EXPECT_DOUBLE_EQ(Objective(data, weights, 0), Evaluate(data, weights).log_loss);
  EXPECT_DOUBLE_EQ(Objective(data, weights, 0.1), Evaluate(data, weights).log_loss + 0.2);
}

TEST(NonZerosTest, CountsValuesOtherThanZero) {
  EXPECT_EQ(NonZeros({0.0f, -0.0f, 1e-30f, -2.0f}), 2u);
  EXPECT_EQ(NonZeros({}), 0u);
}

}  // namespace
}  // namespace paceline::examples
