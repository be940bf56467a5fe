#include "examples/sparse_lr/outcome.h"

#include <cmath>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Outcome Sample() {
  Outcome outcome;
  outcome.cluster = {.test = {.log_loss = 0.25, .auc = 0.75, .accuracy = 0.5},
                     .objective = 0.5,
                     .nonzeros = 1234,
                     .seconds = 2};
  outcome.reference = {
      .test = {.log_loss = 0.125, .auc = 1, .accuracy = 1}, .objective = 0.25, .nonzeros = 7, .seconds = 0.5};
  outcome.totals.examples = 1000;
  outcome.totals.seconds = 2;
  outcome.totals.wait = {
      .staleness = 1, .queue = 2, .network = 3, .route = 4, .back_pressure = 5, .commit = 6};
  outcome.totals.staleness_rows = {{0, 3}, {2, 1}};
  outcome.totals.rows_pushed = 5000;
  return outcome;
}

TEST(OutcomeTest, Json) {
  RunOptions options;
  options.workers = 3;
  const nlohmann::json json = nlohmann::json::parse(OutcomeJson(options, Sample()));
  EXPECT_EQ(json["test_log_loss"], 0.25);
  EXPECT_EQ(json["test_auc"], 0.75);
  EXPECT_EQ(json["accuracy"], 0.5);
  EXPECT_EQ(json["objective"], 0.5);
  EXPECT_EQ(json["nonzeros"], 1234);
  EXPECT_EQ(json["seconds"], 2);
  EXPECT_EQ(json["examples_per_second"], 500);
  EXPECT_EQ(json["wait_seconds"], 21);
  EXPECT_EQ(json["wait_seconds_by_cause"]["back_pressure"], 5);
  EXPECT_EQ(json["wait_seconds_by_cause"].size(), 8u);
  EXPECT_EQ(json["observed_staleness_histogram"], nlohmann::json({{"0", 3}, {"2", 1}}));
  EXPECT_EQ(json["rows_pushed"], 5000);
  EXPECT_EQ(json["reference_test_log_loss"], 0.125);
  EXPECT_EQ(json["reference_test_auc"], 1);
  EXPECT_EQ(json["reference_objective"], 0.25);
  EXPECT_EQ(json["workers"], 3);
  EXPECT_EQ(json["model"], options.model);
}

TEST(OutcomeTest, ReportHasBothColumnsAlignedAndEveryCause) {
  const std::string text = FormatOutcome(RunOptions(), Sample());
  EXPECT_THAT(text, HasSubstr("held-out log-loss           0.2500        0.1250\n"));
  EXPECT_THAT(text, HasSubstr("non-zero weights             1,234             7\n"));
  EXPECT_THAT(text, HasSubstr("examples/s                     500         2,000\n"));
  for (const char* cause : {"staleness ", "queue", "network", "route", "back_pressure", "commit", "total"}) {
    EXPECT_THAT(text, HasSubstr(cause));
  }
  EXPECT_THAT(text, HasSubstr("observed staleness, mean 0.50\n"));
  EXPECT_THAT(text, HasSubstr("75.0 %"));
  EXPECT_THAT(text, HasSubstr("rows pushed 5,000"));
}

TEST(OutcomeTest, TheObjectiveHasThePenaltiesOfItsRule) {
  RunOptions options;
  options.l1 = 0.5;
  options.l2 = 0.25;
  EXPECT_EQ(PenaltiesOf(options).l1, 0.5);
  EXPECT_EQ(PenaltiesOf(options).l2, 0.25);
  options.rule = "sgd";
  EXPECT_EQ(PenaltiesOf(options).l1, 0);
  EXPECT_EQ(PenaltiesOf(options).l2, 0);
}

TEST(OutcomeTest, NoPulledRowsDoNotDivideByZero) {
  Outcome outcome = Sample();
  outcome.totals = Totals();
  outcome.cluster.seconds = 0;
  EXPECT_THAT(FormatOutcome(RunOptions(), outcome), HasSubstr("mean 0.00"));
}

TEST(OutcomeTest, ModelTextKeepsEveryBit) {
  std::vector<float> weights = {0.0f, 1.0f / 3, 0.0f, -1e-20f, std::nextafter(1.0f, 2.0f)};
  std::istringstream lines(ModelText(RunOptions(), weights));
  std::string header;
  std::getline(lines, header);
  EXPECT_THAT(header, HasSubstr("column weight"));
  std::vector<float> read(weights.size());
  size_t column = 0, count = 0;
  for (float weight = 0; lines >> column >> weight; ++count) read.at(column) = weight;
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(read, weights);
}

TEST(OutcomeTest, ScoresAModel) {
  const absl::StatusOr<Dataset> train = ParseLibsvm("1 1:1\n0 2:1\n", "train");
  const absl::StatusOr<Dataset> test = ParseLibsvm("1 1:1 9:1\n0 2:1\n", "test");
  ASSERT_TRUE(train.ok() && test.ok());
  const Score score = ScoreOf(*train, *test, {0.0f, 2.0f, -2.0f}, {.l1 = 0.5});
  EXPECT_EQ(score.test.auc, 1);
  EXPECT_EQ(score.nonzeros, 2u);
  EXPECT_NEAR(score.objective, std::log1p(std::exp(-2.0)) + 0.5 * 4, 1e-9);
}

}  // namespace
}  // namespace paceline::examples
