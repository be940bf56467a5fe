#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/v1/coordinator.pb.h"

// Sums and differences of what workers tell of their time.
namespace paceline::tool {

// The causes in the order in which they are shown, with the names that --json uses.
std::vector<std::pair<const char*, uint64_t>> CausesOf(const v1::WaitCauses& causes);

// Adds the numbers, but not the lists.
void AddTo(v1::WorkerTime& sum, const v1::WorkerTime& time);
// What has been added since `then`.
v1::WorkerTime Since(const v1::WorkerTime& now, const v1::WorkerTime& then);
// What a session told by then; nullptr: nothing.
const v1::WorkerTime* TimeOf(const v1::StatusReply& status, const std::string& job, uint64_t session);

}  // namespace paceline::tool
