#include "examples/mlp/outcome.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;

MlpOutcome Sample() {
  MlpOutcome outcome{.test_accuracy = 0.5,
                     .reference_test_accuracy = 0.75,
                     .reference_seconds = 0.5,
                     .reference_curve = {{.examples = 1000, .seconds = 0.5, .loss = 0.75}},
                     .images = 1000,
                     .weights = 12'345,
                     .totals = {}};
  outcome.totals.examples = 2000;
  outcome.totals.seconds = 2;
  return outcome;
}

TEST(MlpOutcomeTest, Json) {
  MlpOptions options;
  options.workers = 3;
  options.hidden = {128, 64};
  const nlohmann::json json = nlohmann::json::parse(OutcomeJson(options, Sample()));
  EXPECT_EQ(json["test_accuracy"], 0.5);
  EXPECT_EQ(json["reference_test_accuracy"], 0.75);
  EXPECT_EQ(json["seconds"], 2);
  EXPECT_EQ(json["workers"], 3);
  EXPECT_EQ(json["hidden"], nlohmann::json({128, 64}));
  EXPECT_EQ(json["priorities"], true);
  EXPECT_EQ(json["reference_curve"][0]["pass"], 1);
  EXPECT_TRUE(json.contains("curve"));
}

TEST(MlpOutcomeTest, ReportHasBothColumns) {
  const std::string text = FormatOutcome(MlpOptions(), Sample());
  EXPECT_THAT(text, HasSubstr("test accuracy               0.5000        0.7500\n"));
  EXPECT_THAT(text, HasSubstr("weights: 12,345\n"));
  EXPECT_THAT(text, HasSubstr("share of wrong images is 100 % above that of one process"));
}

}  // namespace
}  // namespace paceline::examples
