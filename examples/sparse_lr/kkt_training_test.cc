// What the KKT filter saves, and what it costs: L1 logistic regression by workers in turn, in one process.
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "examples/lib/schedule.h"
#include "examples/sparse_lr/filters.h"
#include "examples/sparse_lr/ftrl_reference.h"
#include "examples/sparse_lr/logistic.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

constexpr uint32_t kColumns = 3000;
constexpr uint32_t kTelling = 20;  // columns that decide the label
constexpr uint32_t kWorkers = 4;

// Rows of unit length: 2 columns that decide the label, and 28 others.
Dataset Generated(size_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::mt19937 truth(1);
  std::uniform_real_distribution<float> size(0.5f, 1.5f), strength(4, 10);
  std::vector<float> weights(kTelling);
  for (float& w : weights) w = strength(truth) * (truth() % 2 == 0 ? 1.0f : -1.0f);
  std::string text;
  for (size_t row = 0; row < rows; ++row) {
    std::set<uint32_t> columns;
    while (columns.size() < 2) columns.insert(random() % kTelling);
    while (columns.size() < 30) columns.insert(kTelling + random() % (kColumns - kTelling));
    std::vector<float> values;
    float square = 0;
    for (size_t i = 0; i < columns.size(); ++i) square += std::pow(values.emplace_back(size(random)), 2.0f);
    std::string line;
    float margin = 0;
    size_t i = 0;
    for (const uint32_t column : columns) {
      const float value = values[i++] / std::sqrt(square);
      if (column < kTelling) margin += weights[column] * value;
      absl::StrAppend(&line, " ", column, ":", value);
    }
    const bool positive = std::generate_canonical<double, 30>(random) < 1 / (1 + std::exp(-margin));
    absl::StrAppend(&text, positive ? "1" : "0", line, "\n");
  }
  return *ParseLibsvm(text, "generated");
}

struct Trained {
  double objective = 0;
  size_t nonzeros = 0;
  double late_share = 0;  // left out in the last epoch
};

// `share` as of --filters kkt:SHARE; nullopt: without the filter.
Trained Train(const Dataset& data, double l1, std::optional<double> share) {
  constexpr int kEpochs = 6;
  const FtrlOptions ftrl{.lambda1 = FtrlLambda1(l1, data.rows(), kEpochs)};
  std::vector<FtrlRow> model(data.column_count);
  std::vector<std::unique_ptr<Schedule>> schedules;
  std::vector<std::unique_ptr<KktFilter>> filters;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    schedules.push_back(std::make_unique<Schedule>(
        ScheduleOptions{.examples = data.rows(), .workers = kWorkers, .epochs = kEpochs}, w));
    if (share.has_value()) {
      filters.push_back(std::make_unique<KktFilter>(MakeKktFilter({.kkt = share}, ftrl.lambda1, kWorkers)));
    }
  }
  BatchBuilder builder(&data);
  Batch batch;
  std::vector<float> weights, gradient;
  std::vector<uint64_t> keys;
  const auto apply = [&] {
    for (size_t i = 0; i < keys.size(); ++i) FtrlApply(ftrl, gradient[i], &model[keys[i]]);
  };
  uint64_t late_given = 0, late_sent = 0;
  for (size_t clock = 0; clock < schedules[0]->clocks(); ++clock) {
    for (uint32_t w = 0; w < kWorkers; ++w) {
      builder.Build(schedules[w]->Rows(clock), &batch);
      weights.clear();
      for (const uint64_t key : batch.keys) weights.push_back(model[key].w);
      gradient.resize(batch.keys.size());
      ComputeGradient(batch, weights, absl::MakeSpan(gradient));
      keys = batch.keys;
      if (share.has_value()) filters[w]->Filter(weights, &keys, &gradient);
      if (clock + schedules[0]->clocks_per_epoch() >= schedules[0]->clocks()) {
        late_given += batch.keys.size();
        late_sent += keys.size();
      }
      apply();
    }
  }
  for (const auto& filter : filters) {  // the reset pass
    filter->Reset(&keys, &gradient);
    apply();
  }
  std::vector<float> result;
  for (const FtrlRow& row : model) result.push_back(row.w);
  return {.objective = Objective(data, result, l1),
          .nonzeros = NonZeros(result),
          .late_share = 1 - static_cast<double>(late_sent) / static_cast<double>(late_given)};
}

TEST(KktTrainingTest, NineOfTenFeaturesAreNotSentLateAtTheSameObjective) {
  const Dataset data = Generated(6000, 2);
  constexpr double kL1 = 3e-4;
  const Trained plain = Train(data, kL1, std::nullopt);
  EXPECT_EQ(plain.late_share, 0);
  const Trained filtered = Train(data, kL1, ParseFilters("kkt")->kkt);
  std::printf("objective %.6f, with kkt %.6f; weights %zu and %zu; not sent in the last epoch: %.1f %%\n",
              plain.objective, filtered.objective, plain.nonzeros, filtered.nonzeros,
              100 * filtered.late_share);
  EXPECT_GE(filtered.late_share, 0.9);
  EXPECT_NEAR(filtered.objective, plain.objective, 1e-3 * plain.objective);
  EXPECT_LT(plain.objective, 0.95 * std::log(2.0)) << "it has learnt something";
  EXPECT_GT(plain.nonzeros, 10u);
}

}  // namespace
}  // namespace paceline::examples
