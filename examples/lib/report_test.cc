#include "examples/lib/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;

Totals Sample() {
  Totals totals;
  totals.examples = 1000;
  totals.seconds = 2;
  totals.worker_seconds = 8;
  totals.blocked_seconds = 2;
  totals.wait = {
      .staleness = 1, .queue = 2, .network = 3, .route = 4, .back_pressure = 5, .work = 7, .commit = 6};
  totals.staleness_rows = {{0, 3}, {2, 1}};
  totals.rows_pushed = 5000;
  totals.curve = {{.examples = 250, .clock = 3, .seconds = 0.5, .loss = 0.75}};
  return totals;
}

TEST(ReportTest, CommonJson) {
  JobOptions options;
  options.workers = 3;
  const nlohmann::ordered_json json = CommonJson(options, Sample(), 500);
  EXPECT_EQ(json["seconds"], 2);
  EXPECT_EQ(json["examples_per_second"], 500);
  EXPECT_EQ(json["wait_seconds"], 28);
  EXPECT_EQ(json["wait_seconds_by_cause"]["back_pressure"], 5);
  EXPECT_EQ(json["wait_seconds_by_cause"].size(), 8u);
  EXPECT_EQ(json["worker_seconds"], 8);
  EXPECT_EQ(json["blocked_seconds"], 2);
  EXPECT_EQ(json["observed_staleness_histogram"], nlohmann::json({{"0", 3}, {"2", 1}}));
  EXPECT_EQ(json["mean_staleness"], 0.5);
  EXPECT_EQ(json["rows_pushed"], 5000);
  EXPECT_EQ(json["workers"], 3);
  EXPECT_EQ(json["model"], options.model);
  EXPECT_EQ(json["curve"],
            nlohmann::ordered_json::parse(R"([{"pass": 0.5, "clock": 3, "seconds": 0.5, "loss": 0.75}])"));
}

TEST(ReportTest, TextHasEveryCauseAndWhereTheTimeWent) {
  const std::string text = FormatTotals(JobOptions(), Sample());
  for (const char* cause :
       {"staleness ", "queue", "network", "route", "back_pressure", "  work ", "commit", "total"}) {
    EXPECT_THAT(text, HasSubstr(cause));
  }
  EXPECT_THAT(text, HasSubstr("time of 4 workers together\n"
                              "  computing                 6.00 s   75.0 %\n"
                              "  in calls                  2.00 s   25.0 %\n"));
  EXPECT_THAT(text, HasSubstr("observed staleness, mean 0.50\n"));
  EXPECT_THAT(text, HasSubstr("75.0 %"));
  EXPECT_THAT(text, HasSubstr("rows pushed 5,000"));
}

TEST(ReportTest, ShowsWhereTheTimeBeyondOneProcessGoes) {
  Totals totals = Sample();
  totals.blocked = {.staleness = 0.5, .network = 1, .apply = 0.001};
  EXPECT_EQ(FormatBeyond(JobOptions(), totals, 3),
            "\nbeyond one process's 3.00 s: 5.00 s of 4 workers together\n"
            "  computing                 3.00 s   60.0 %\n"
            "  the client's work         0.50 s   10.0 %\n"
            "  staleness                 0.50 s   10.0 %\n"
            "  network                   1.00 s   20.0 %\n");
  EXPECT_EQ(FormatBeyond(JobOptions(), totals, 8), "") << "one process took as long";
}

TEST(ReportTest, WhatWasTrainedAgainIsToldIfItWasCounted) {
  Totals totals = Sample();
  EXPECT_FALSE(CommonJson(JobOptions(), totals, 500).contains("trained_again"));
  totals.trained_again = 1600;
  EXPECT_EQ(CommonJson(JobOptions(), totals, 500)["trained_again"], 1600);
  EXPECT_THAT(FormatTotals(JobOptions(), totals), HasSubstr("are trained, 1,600 of them once more"));
}

TEST(ReportTest, GreatStalenessIsGathered) {
  Totals totals = Sample();
  totals.staleness_rows = {{0, 1}, {8, 2}, {9, 3}, {16, 4}, {40, 5}, {64, 6}, {65, 7}};
  EXPECT_THAT(FormatTotals(JobOptions(), totals), HasSubstr("       0                       1    3.6 %\n"
                                                            "       8                       2    7.1 %\n"
                                                            "    9-16                       7   25.0 %\n"
                                                            "   33-64                      11   39.3 %\n"
                                                            "  65-128                       7   25.0 %\n"));
}

TEST(ReportTest, StalenessIsNamedWhereTheClusterLearntLess) {
  Totals totals = Sample();
  EXPECT_THAT(
      ExplainDifference("loss", 2, 1, totals, "a smaller step"),
      HasSubstr("loss is 100 % above that of one process. Its rows were 0.5 clocks old on average, 2 at "
                "most"));
  totals.staleness_rows = {{0, 4}};
  EXPECT_THAT(ExplainDifference("loss", 2, 1, totals, "a smaller step"),
              HasSubstr("Its rows were not stale"));
  EXPECT_EQ(ExplainDifference("loss", 1.01, 1, totals, "a smaller step"), "");
}

TEST(ReportTest, NothingDividesByZero) {
  EXPECT_THAT(FormatTotals(JobOptions(), Totals()), HasSubstr("mean 0.00"));
  EXPECT_EQ(CommonJson(JobOptions(), Totals(), 0)["examples_per_second"], 0);
}

}  // namespace
}  // namespace paceline::examples
