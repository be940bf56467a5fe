#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/schedule.h"

namespace paceline::examples {

// What a worker trains at one clock: these rows, in this order. Both die with the call that gets them.
struct TrainingBatch {
  absl::Span<const uint32_t> rows;  // empty: the worker has none at this clock
  int epoch = 0;
};

// The sum of the losses of a batch, each before its own update: of its examples, or of so many parts of them
// that count instead, such as words of documents.
struct BatchLoss {
  BatchLoss(double of_examples) : sum(of_examples) {}  // NOLINT: most are of examples
  BatchLoss(double of_parts, uint64_t so_many) : sum(of_parts), parts(so_many) {}

  double sum = 0;
  std::optional<uint64_t> parts = std::nullopt;
};

// Trains one batch: pulls, computes, pushes.
using TrainBatch = absl::FunctionRef<absl::StatusOr<BatchLoss>(const TrainingBatch&)>;

// Trains this worker's part of all epochs, and ends a clock after each batch. Call it after the worker has
// joined; it begins the training. Each epoch visits its examples in EpochOrder, or as they are numbered
// (schedule.in_order), in batches of schedule.batch_size. Which of them are this worker's depends on --work:
//
// - split: those of its Schedule. A job's set of workers is fixed then: what a worker that dies has not
//   trained is never trained.
// - queue: those of the items of a work queue that it is given. Workers may die, leave and join at any time:
//   all examples of all epochs are trained, once but for what the coordinator counts (docs/work.md). All
//   workers must be given the same examples, batch size, epochs and seed; schedule.workers does not matter.
//
// With --count-work the table kTrained counts, in row epoch * examples + place in the epoch's order, how
// often an example was trained (count_work.h).
absl::Status TrainBatches(JobWorker& worker, const ScheduleOptions& schedule, TrainBatch train);

// Examples of an item: whole batches, so many that items are worth handing out, and so few that workers of
// unlike speed end together.
uint64_t ExamplesOfItem(const ScheduleOptions& schedule);

}  // namespace paceline::examples
