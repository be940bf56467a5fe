#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Words for people, and checks of words from outside.
namespace paceline::coordinator {

// "0-3, 7, 9-12", shortened to the first few ranges where there are many.
std::string Ranges(const std::set<uint32_t>& numbers);

// "10.2 s".
std::string Seconds(absl::Duration duration);

// OK for 1 to `bytes_max` letters, digits, '.', '_', '-', '/' and ':'. Otherwise kInvalidArgument naming
// `field`.
absl::Status CheckName(absl::string_view field, absl::string_view name, size_t bytes_max);

// OK for at most `bytes_max` bytes. Otherwise kInvalidArgument naming `field`.
absl::Status CheckText(absl::string_view field, absl::string_view text, size_t bytes_max);

// OK for a level this release can talk to.
absl::Status CheckFeatureLevel(uint32_t level);

// kResourceExhausted: "<what>: there are already <limit>, the most there may be; <remedy>".
absl::Status TooMany(absl::string_view what, size_t limit, absl::string_view remedy);

}  // namespace paceline::coordinator
