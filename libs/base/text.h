#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Texts that come from outside: names, addresses, reasons, messages. What a process takes is checked at its
// door; what it writes where people read, to a log or a terminal, is escaped all the same.
namespace paceline {

inline constexpr size_t kNameBytesMax = 128;  // of a job, table or shard
inline constexpr size_t kTextBytesMax = 512;  // of a client's description, a reason, an address, a zone

// What may stand in one line of a log or a terminal: control characters, those that turn the direction of a
// line or end it, and bytes that are no UTF-8 are written as \xNN, and what is beyond `bytes_max` is cut off.
std::string Escaped(absl::string_view text, size_t bytes_max = 4096);
// The same for several lines: ends of lines stay.
std::string EscapedLines(absl::string_view text);

// Each: OK, or kInvalidArgument that names `field`, what it is (escaped) and what was expected.

// 1 to `bytes_max` letters, digits, '.', '_', '-', '/' and ':'.
absl::Status CheckName(absl::string_view field, absl::string_view name, size_t bytes_max = kNameBytesMax);
// At most `bytes_max` bytes of UTF-8 that Escaped leaves as they are.
absl::Status CheckText(absl::string_view field, absl::string_view text, size_t bytes_max = kTextBytesMax);
// HOST:PORT, where HOST is a name, an IPv4 address or an IPv6 address in brackets, and nothing that gRPC
// takes for something else, as a path or a list.
absl::Status CheckAddress(absl::string_view field, absl::string_view address);

}  // namespace paceline
