#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::tool {

// A cluster's status for people: a line for the cluster, then its shards, jobs with their sessions, tables,
// and problems.
std::string StatusText(const v1::StatusReply& status, absl::string_view coordinator);

// The progress of a work queue, in one line.
std::string WorkText(const v1::WorkStatus& work);

// "bound 4 from clock 120 on, at most 16: it follows the waiting". REQUIRES: the table has bound_max.
std::string BoundText(const v1::Table& table);

// "1.5 MiB".
std::string BytesText(uint64_t bytes);

// "3 segments are being copied, 12 wait; 1.5 GiB left, 50.0 MiB a second: 31 s".
std::string MovesText(const v1::MoveStatus& moves);

// What clients ask of the cluster, and the keys that are too hot for any move; one line each.
std::string LoadText(const v1::StatusReply& status);

}  // namespace paceline::tool
