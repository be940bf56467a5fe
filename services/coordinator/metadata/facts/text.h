#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/text.h"

// Texts for people, and checks of input from outside; libs/base/text.h checks texts themselves.
namespace paceline::coordinator {

// "0-3, 7, 9-12", shortened to the first few ranges where there are many.
std::string Ranges(const std::set<uint32_t>& numbers);

// "10.2 s".
std::string Seconds(absl::Duration duration);

// The text of a problem: `who` has no descriptors left for connections.
std::string RefusesConnections(absl::string_view who, uint64_t refused, uint64_t descriptors);

// OK for a level this release can talk to.
absl::Status CheckFeatureLevel(uint32_t level);

// kResourceExhausted: "<what>: there are already <limit>, the most there may be; <remedy>".
absl::Status TooMany(absl::string_view what, size_t limit, absl::string_view remedy);

}  // namespace paceline::coordinator
