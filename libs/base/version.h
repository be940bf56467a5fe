#pragma once

#include <string_view>

namespace paceline {

// This build's version, as "0.1.0": that of the project in the top-level CMakeLists.txt.
extern const std::string_view kVersion;

}  // namespace paceline
