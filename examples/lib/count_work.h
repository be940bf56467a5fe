#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "paceline/client.h"

namespace paceline::examples {

// Counts how often each example of each pass of a work queue was trained. Row pass * examples + example holds
// it: workers add 1 with the pushes of an example, so the count is committed when those are.
inline constexpr char kTrained[] = "trained";

absl::StatusOr<Table> OpenTrained(Client& client);

// How often examples were trained beyond once, all together. kDataLoss: one was never trained, and it is
// named. Call it once the queue is complete.
absl::StatusOr<uint64_t> TrainedAgain(Client& client, uint64_t examples, uint64_t passes);
// By a client of its own.
absl::StatusOr<uint64_t> TrainedAgain(const ClientOptions& reader, uint64_t examples, uint64_t passes);

}  // namespace paceline::examples
