#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "examples/lib/trace.h"
#include "paceline/stats.h"

namespace paceline::examples {

// The losses of a piece of a worker's clocks: of a run some 30 to 250, the same ones for all its workers.
struct LossPiece {
  uint64_t examples = 0;
  double loss_sum = 0;
  uint64_t clock = 0;  // after the last of them
  int64_t ended = 0;   // then, in nanoseconds of the monotonic clock
};

// What a worker waits for in a call, with the names of `paceline explain`.
struct BlockedCause {
  const char* name;
  double BlockedSeconds::*seconds;
};
inline constexpr BlockedCause kBlockedCauses[] = {{"staleness", &BlockedSeconds::staleness},
                                                  {"network", &BlockedSeconds::network},
                                                  {"queue", &BlockedSeconds::queue},
                                                  {"apply", &BlockedSeconds::apply},
                                                  {"replication", &BlockedSeconds::replication},
                                                  {"back pressure", &BlockedSeconds::back_pressure},
                                                  {"route", &BlockedSeconds::route},
                                                  {"work", &BlockedSeconds::work},
                                                  {"coordinator", &BlockedSeconds::coordinator},
                                                  {"value bound", &BlockedSeconds::value_bound}};
// What a worker's KKT filter (paceline/kkt.h) was given and left out; late: in the last pass.
struct KktCounts {
  uint64_t given = 0;
  uint64_t left_out = 0;
  uint64_t late_given = 0;
  uint64_t late_left_out = 0;
};

// The report of a worker process to its parent, about ten times a second and at the end: one line of JSON on
// its standard output. All numbers are totals since the worker's start, so that a report replaces the one
// before.
struct WorkerReport {
  enum class Stage {
    kStarting,  // reads data, connects, waits for the other workers
    kTraining,
    kDone,    // has finished; the last report
    kFailed,  // see `error`; the last report
  };
  Stage stage = Stage::kStarting;
  uint64_t clock = 0;     // the worker's
  uint64_t examples = 0;  // trained on
  double loss_sum = 0;    // of these, each at the weights before its own update
  // Nanoseconds of the monotonic clock, which all processes of a machine share; 0: not yet.
  int64_t began = 0;              // the training, all workers being there
  int64_t ended = 0;              // Finish returned
  double blocked_seconds = 0;     // of the training: the worker stood in calls of the SDK
  BlockedSeconds blocked;         // of that: it waited, by cause
  std::vector<LossPiece> losses;  // in the last report only
  std::vector<TraceSpan> trace;   // there too, if the run is traced
  uint64_t trace_left_out = 0;
  KktCounts kkt;  // all 0: it has none
  Stats stats;
  std::string error;
};

// One line, without the newline.
std::string ToLine(const WorkerReport& report);
// InvalidArgument if the line is not one of ToLine.
absl::StatusOr<WorkerReport> FromLine(absl::string_view line);

}  // namespace paceline::examples
