#include "examples/lib/worker_report.h"

#include "examples/lib/totals.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

WorkerReport Sample() {
  WorkerReport report;
  report.stage = WorkerReport::Stage::kDone;
  report.clock = 12;
  report.examples = 100;
  report.loss_sum = 0.1 + 0.2;
  report.began = 1'000'000'007'000'000'001;
  report.ended = 1'000'000'009'000'000'001;
  report.stats.wait = {
      .staleness = 1, .queue = 2, .network = 3, .route = 4, .back_pressure = 5, .work = 7, .commit = 6};
  report.stats.staleness_rows = {{0, 10}, {2, 5}};
  report.stats.rows_pushed = uint64_t{1} << 60;
  report.stats.rows_pulled = 8;
  report.stats.bytes_pulled = 96;
  report.stats.rows_from_cache = 3;
  report.stats.retries = 9;
  report.stats.push_filter = {.rows_given = 11, .rows_sent = 4, .bytes_given = 132, .bytes_sent = 48};
  report.kkt = {.given = 50, .left_out = 40, .late_given = 10, .late_left_out = 9};
  report.blocked_seconds = 0.25;
  report.blocked = {.staleness = 0.125, .network = 0.0625};
  report.losses = {{.examples = 60, .loss_sum = 30, .clock = 6, .ended = report.began + 500'000'000},
                   {.examples = 40, .loss_sum = 10, .clock = 12, .ended = report.ended}};
  report.trace = {{.what = TraceSpan::What::kRead, .clock = 3, .began = report.began, .ended = report.ended}};
  report.trace_left_out = 2;
  report.error = "two\nlines, and \"quotes\"";
  return report;
}

TEST(WorkerReportTest, GoesThroughALine) {
  const std::string line = ToLine(Sample());
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const absl::StatusOr<WorkerReport> back = FromLine(line);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToLine(*back), line);
  EXPECT_EQ(back->stage, WorkerReport::Stage::kDone);
  EXPECT_EQ(back->loss_sum, Sample().loss_sum);
  EXPECT_EQ(back->began, Sample().began);
  EXPECT_EQ(back->stats.rows_pushed, Sample().stats.rows_pushed);
  EXPECT_EQ(back->stats.wait.total(), 28);
  EXPECT_EQ(back->blocked.staleness, 0.125);
  EXPECT_EQ(back->blocked.total(), 0.1875);
  EXPECT_EQ(back->stats.push_filter.bytes_sent, 48u);
  EXPECT_EQ(back->kkt.late_left_out, 9u);
  ASSERT_EQ(back->trace.size(), 1u);
  EXPECT_EQ(back->trace[0].what, TraceSpan::What::kRead);
  EXPECT_EQ(back->trace[0].ended, Sample().ended);
  EXPECT_EQ(back->trace_left_out, 2u);
  EXPECT_EQ(back->stats.staleness_rows, Sample().stats.staleness_rows);
  EXPECT_EQ(back->error, Sample().error);
}

TEST(WorkerReportTest, OddBytesInAnErrorDoNotStopIt) {
  WorkerReport report;
  report.error = "file \xff name";
  EXPECT_TRUE(FromLine(ToLine(report)).ok());
}

TEST(WorkerReportTest, RefusesOtherText) {
  for (const char* text : {"", "hello", "{}", "{\"stage\":1}", "[1,2]", "{\"stage\":"}) {
    EXPECT_EQ(FromLine(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(TotalsTest, AddsUp) {
  WorkerReport slow = Sample();
  slow.clock = 11;
  slow.ended += 1'000'000'000;
  slow.stats.rows_pushed = 0;
  slow.stats.staleness_rows = {{1, 1}, {2, 4}};
  const Totals totals = Sum({Sample(), slow});
  EXPECT_EQ(totals.started, 2u);
  EXPECT_EQ(totals.examples, 200u);
  EXPECT_EQ(totals.wait.total(), 56);
  EXPECT_EQ(totals.rows_pushed, uint64_t{1} << 60);
  EXPECT_THAT(totals.staleness_rows, UnorderedElementsAre(Pair(0, 10), Pair(1, 1), Pair(2, 9)));
  EXPECT_EQ(totals.clock_all_have, 11u);
  EXPECT_DOUBLE_EQ(totals.seconds, 3);
  EXPECT_DOUBLE_EQ(totals.worker_seconds, 5);
  EXPECT_DOUBLE_EQ(totals.blocked_seconds, 0.5);
  EXPECT_DOUBLE_EQ(totals.blocked.staleness, 0.25);
  EXPECT_DOUBLE_EQ(totals.blocked.total(), 0.375);
}

TEST(TotalsTest, TheCurveIsTheMeanOverTheWorkers) {
  WorkerReport slow = Sample();
  slow.losses = {{.examples = 20, .loss_sum = 90, .clock = 6, .ended = slow.began + 700'000'000}};
  const std::vector<LossPoint> curve = Sum({Sample(), slow}).curve;
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0].examples, 80u);
  EXPECT_EQ(curve[0].clock, 6u);
  EXPECT_DOUBLE_EQ(curve[0].loss, 1.5);
  EXPECT_DOUBLE_EQ(curve[0].seconds, 0.7);
  EXPECT_EQ(curve[1].examples, 120u);
  EXPECT_DOUBLE_EQ(curve[1].loss, 0.25);
}

TEST(TotalsTest, HasNoDurationUntilAllHaveFinished) {
  WorkerReport running = Sample();
  running.ended = 0;
  EXPECT_EQ(Sum({Sample(), running}).seconds, 0);
  EXPECT_TRUE(Sum({Sample(), running}).curve.empty());
  EXPECT_EQ(Sum({WorkerReport()}).started, 0u);
  EXPECT_EQ(Sum({}).seconds, 0);
}

TEST(TotalsTest, MeanAndMaximumOfStaleness) {
  EXPECT_DOUBLE_EQ(MeanStaleness({{0, 3}, {4, 1}}), 1);
  EXPECT_EQ(MaxStaleness({{0, 3}, {4, 1}}), 4u);
  EXPECT_EQ(MeanStaleness({}), 0);
  EXPECT_EQ(MaxStaleness({}), 0u);
}

}  // namespace
}  // namespace paceline::examples
