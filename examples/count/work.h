#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "paceline/client.h"

namespace paceline::examples {

// Counting by a work queue: row p * examples + e counts how often example e was trained in pass p.
struct CountedWork {
  uint64_t examples = 0;
  uint64_t per_item = 10;
  uint64_t passes = 1;
  absl::Duration pause = absl::ZeroDuration();  // between two examples
};

// Trains items until all are done, by whomever, or until `stop` holds: then leaves the rest to others. Ends a
// clock with each example.
absl::Status TrainWork(Client& client, const CountedWork& work, absl::FunctionRef<bool()> stop);

// Prints how many examples were trained, and how often beyond once. kDataLoss: one never was.
absl::Status CheckWork(Client& client, const CountedWork& work);

}  // namespace paceline::examples
