#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/lr_model.h"
#include "paceline/client.h"

namespace paceline::bench::lr {

// Of a model that is drawn with the features; the same for the same number of examples, a multiple of kBatch.
std::vector<Batch> MakeBatches(size_t examples);

// One epoch on an array of kFeatures weights. Returns the mean loss.
double EpochHere(const std::vector<Batch>& batches, std::vector<float>& weights);

// The keys of each batch, as lists of a table.
absl::StatusOr<std::vector<KeyList>> ListKeys(const std::vector<Batch>& batches, const Table& table);

// One epoch on a table, as a user of the SDK would write it for speed: pulls are made kAhead batches ahead.
// Ends with everything committed. Returns the mean loss.
absl::StatusOr<double> EpochThere(const std::vector<Batch>& batches, Client& client, Table& table);
// The same with `lists`, of the batches' keys.
absl::StatusOr<double> EpochThere(const std::vector<Batch>& batches, const std::vector<KeyList>& lists,
                                  Client& client, Table& table);

}  // namespace paceline::bench::lr
