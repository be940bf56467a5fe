#pragma once

#include "examples/lib/job_worker.h"
#include "examples/matrix_factorization/options.h"

namespace paceline::examples {

// Tables of the model: of each user and of each item, by its id, a row of its bias and its factors. Workers
// take whole steps themselves and add what they sum up to.
constexpr char kUsersTable[] = "users";
constexpr char kItemsTable[] = "items";

// The training of a worker: reads the ratings, joins the job, and for each of its batches, which options.work
// decides (TrainBatches), pulls its rows, takes its steps, pushes by how much they moved the rows, and ticks.
// `options` must outlive the result.
Training TrainingOf(const FactorOptions& options);

}  // namespace paceline::examples
