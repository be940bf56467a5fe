#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/base/ids.h"
#include "libs/log/segment.h"
#include "paceline/v1/shard.pb.h"

// The refusals of a primary's parts.
namespace paceline::log {

v1::Refusal RefusalOf(v1::Refusal::Reason reason, SegmentId segment, absl::string_view message);

// The worker that holds up the job's min clock, for people.
std::string DescribeSlowest(const Segment& segment, JobId job);
std::optional<uint32_t> RankOfSlowest(const Segment& segment, JobId job);

}  // namespace paceline::log
