#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace paceline::examples {

// A stretch of a worker's time.
struct TraceSpan {
  enum class What { kClock, kRead, kPush, kTick, kFinish, kNextItem };
  What what = What::kClock;
  uint64_t clock = 0;
  int64_t began = 0;  // nanoseconds of the monotonic clock
  int64_t ended = 0;
};

// What a worker did, for --trace: the first kMax stretches; later ones are only counted.
class TraceRecorder {
 public:
  static constexpr size_t kMax = 20'000;
  void Add(const TraceSpan& span);
  const std::vector<TraceSpan>& spans() const { return spans_; }
  uint64_t left_out() const { return left_out_; }

 private:
  std::vector<TraceSpan> spans_;
  uint64_t left_out_ = 0;
};

// A worker's part of a run.
struct WorkerTrace {
  uint32_t rank = 0;
  std::vector<TraceSpan> spans;
  uint64_t left_out = 0;
};

// All of them as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open: each worker
// a thread, each stretch an event with its clock.
std::string TraceJson(absl::Span<const WorkerTrace> workers);

}  // namespace paceline::examples
