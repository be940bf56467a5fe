#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "libs/history/event.h"

namespace paceline::history {

// The longest text that is encoded, in bytes; the rest is cut off.
inline constexpr size_t kTextBytesMax = 1024;

// Appends `event`: its kind, the length of its fields, its fields. Numbers are varints.
void Append(const Event& event, std::string& out);

// Reads an event at the front of `in` and moves `in` past it. nullopt: the event's kind is not known to this
// release. INVALID_ARGUMENT if the bytes are no event; `in` is then unchanged. Safe for hostile bytes.
absl::StatusOr<std::optional<Event>> TakeEvent(std::string_view& in);

}  // namespace paceline::history
