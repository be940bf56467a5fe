#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::coordinator {

// A page for people, as HTML: shards, jobs, workers and problems, by the facts that `paceline status` shows.
// It asks for itself anew every two seconds, and needs no script. Whatever others have named is escaped.
// `cluster`: the cluster's name, or empty.
std::string StatusPage(const v1::StatusReply& status, absl::string_view cluster);

}  // namespace paceline::coordinator
