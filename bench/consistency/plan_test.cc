#include "bench/consistency/plan.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

std::vector<std::string> Names(const std::vector<Model>& models) {
  std::vector<std::string> names;
  for (const Model& model : models) names.push_back(model.name);
  return names;
}

TEST(PlanTest, EachBoundIsThereUnderBothModels) {
  const std::vector<std::string> names = Names(ConvergenceModels(TrainedJob::kTopics, {0, 3}));
  for (const char* name : {"bsp", "ssp:0", "essp:0", "ssp:3", "essp:3"}) EXPECT_THAT(names, Contains(name));
}

TEST(PlanTest, StalenessIsShownWithoutFramesWithFewAndWithAll) {
  const std::vector<Model> models = StalenessModels();
  ASSERT_EQ(models.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Ssp>(models[0].consistency));
  EXPECT_EQ(std::get<Essp>(models[1].consistency).every, std::nullopt);
  EXPECT_EQ(std::get<Essp>(models[2].consistency).every, 1u);
}

TEST(PlanTest, EveryPlanBeginsInStep) {
  for (const Plan& plan : {WholePlan(), QuickPlan(), SmallestPlan()}) {
    EXPECT_EQ(plan.bounds.front(), 0u);
    EXPECT_EQ(plan.delays.front(), 0u);
    EXPECT_TRUE(std::ranges::any_of(plan.bounds, [](uint64_t s) { return s >= 3; }));
    EXPECT_GE(std::min({plan.seeds, plan.tuning_seeds, plan.rounds}), 1u);
    EXPECT_GE(plan.sizes.slow, 5 * plan.sizes.each) << "slower than the machine's cores could make it";
  }
}

TEST(PlanTest, TheWholePlanIsThatOfTheGoals) {
  EXPECT_THAT(WholePlan().bounds, ElementsAre(0, 1, 3, 10, 20));
  EXPECT_THAT(WholePlan().delays, ElementsAre(0, 1, 2, 4, 8, 16));
  EXPECT_EQ(WholePlan().seeds, 5u);
  EXPECT_EQ(WholePlan().rounds, 7u);
}

TEST(PlanTest, ModelsAreThoseOfTheExamples) {
  ASSERT_TRUE(ModelOf("delay:4").ok());
  EXPECT_EQ(std::get<Ssp>(ModelOf("delay:4")->consistency).staleness, 4u);
  EXPECT_FALSE(ModelOf("none:1").ok());
}

}  // namespace
}  // namespace paceline::bench
