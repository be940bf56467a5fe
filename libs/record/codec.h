#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "libs/record/event.h"

namespace paceline::record {

// The longest text that is encoded; what is beyond it is cut off.
inline constexpr size_t kTextBytesMax = 1024;

// Appends `event`: its kind, the length of its fields, its fields. Numbers are varints.
void Append(const Event& event, std::string& out);

// Reads an event at the front of `in` and moves `in` behind it. nullopt: one of a kind that is not known
// here. INVALID_ARGUMENT if the bytes are no event; `in` is then as it was. Takes hostile bytes.
absl::StatusOr<std::optional<Event>> TakeEvent(std::string_view& in);

}  // namespace paceline::record
