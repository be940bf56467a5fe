#include "examples/lib/trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

TEST(TraceTest, IsAListOfChromeTraceEvents) {
  const std::vector<WorkerTrace> workers = {
      {.rank = 0,
       .spans = {{.what = TraceSpan::What::kClock, .clock = 3, .began = 5'000, .ended = 9'000},
                 {.what = TraceSpan::What::kRead, .clock = 3, .began = 5'500, .ended = 8'000}}},
      {.rank = 1,
       .spans = {{.what = TraceSpan::What::kTick, .clock = 4, .began = 6'000, .ended = 6'001}},
       .left_out = 7},
  };
  const auto json = nlohmann::json::parse(TraceJson(workers));
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0],
            nlohmann::json::parse(
                R"({"name": "thread_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "worker 0"}})"));
  EXPECT_EQ(events[2], nlohmann::json::parse(
                           R"({"name": "wait for rows", "cat": "call", "ph": "X", "ts": 0.5, "dur": 2.5,
                                      "pid": 1, "tid": 0, "args": {"clock": 3}})"));
  EXPECT_EQ(events[3]["args"]["name"], "worker 1 (7 later events left out)");
  EXPECT_EQ(events[4]["ts"], 1);
}

TEST(TraceTest, ALongRunKeepsItsBeginning) {
  TraceRecorder recorder;
  for (size_t i = 0; i < TraceRecorder::kMax + 3; ++i) recorder.Add({.clock = i});
  EXPECT_EQ(recorder.spans().size(), TraceRecorder::kMax);
  EXPECT_EQ(recorder.spans().back().clock, TraceRecorder::kMax - 1);
  EXPECT_EQ(recorder.left_out(), 3u);
}

}  // namespace
}  // namespace paceline::examples
