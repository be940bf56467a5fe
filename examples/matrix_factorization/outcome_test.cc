#include "examples/matrix_factorization/outcome.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FactorOutcome Sample() {
  FactorOutcome outcome;
  outcome.cluster = {.test_rmse = 0.92, .train_rmse = 0.8, .seconds = 2};
  outcome.reference = {.test_rmse = 0.91, .train_rmse = 0.79, .seconds = 0.5};
  outcome.reference_curve = {{.examples = 1000, .seconds = 0.5, .loss = 0.75}};
  outcome.mean_test_rmse = 1.125;
  outcome.ratings = 1000;
  outcome.totals.examples = 2000;
  outcome.totals.seconds = 2;
  return outcome;
}

TEST(FactorOutcomeTest, Json) {
  FactorOptions options;
  options.workers = 3;
  const nlohmann::json json = nlohmann::json::parse(OutcomeJson(options, Sample()));
  EXPECT_EQ(json["test_rmse"], 0.92);
  EXPECT_EQ(json["reference_test_rmse"], 0.91);
  EXPECT_EQ(json["mean_test_rmse"], 1.125);
  EXPECT_EQ(json["examples_per_second"], 1000);
  EXPECT_EQ(json["workers"], 3);
  EXPECT_EQ(json["reference_curve"][0]["pass"], 1);
  EXPECT_TRUE(json.contains("curve"));
}

TEST(FactorOutcomeTest, ReportHasBothColumns) {
  FactorOutcome outcome = Sample();
  const std::string text = FormatOutcome(FactorOptions(), outcome);
  EXPECT_THAT(text, HasSubstr("held-out RMSE               0.9200        0.9100\n"));
  EXPECT_THAT(text, HasSubstr("ratings/s                    1,000         4,000\n"));
  EXPECT_THAT(text, Not(HasSubstr("above that of one process")));
  outcome.cluster.test_rmse = 1;
  EXPECT_THAT(FormatOutcome(FactorOptions(), outcome),
              HasSubstr("held-out RMSE is 10 % above that of one process"));
}

}  // namespace
}  // namespace paceline::examples
