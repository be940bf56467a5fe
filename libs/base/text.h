#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Texts that come from outside: names, addresses, reasons, messages. A process checks them where it receives
// them. It escapes them all the same where people read them: in a log or on a terminal.
namespace paceline {

inline constexpr size_t kNameBytesMax = 128;  // of a job, table or shard
inline constexpr size_t kTextBytesMax = 512;  // of a client's description, a reason, an address, a zone

// `text` made fit for one line of a log or terminal. Control characters, characters that end the line or turn
// its direction, and bytes that are not UTF-8 become \xNN; what exceeds `bytes_max` is cut off.
std::string Escaped(absl::string_view text, size_t bytes_max = 4096);
// The same for several lines: line ends stay.
std::string EscapedLines(absl::string_view text);

// Each returns OK, or kInvalidArgument that names `field`, quotes its value (escaped) and says what was
// expected.

// 1 to `bytes_max` letters, digits, '.', '_', '-', '/' and ':'.
absl::Status CheckName(absl::string_view field, absl::string_view name, size_t bytes_max = kNameBytesMax);
// At most `bytes_max` bytes of UTF-8 that Escaped leaves as they are.
absl::Status CheckText(absl::string_view field, absl::string_view text, size_t bytes_max = kTextBytesMax);
// HOST:PORT, where HOST is a name, an IPv4 address or an IPv6 address in brackets. Refuses what gRPC would
// take for something else, such as a path or a list.
absl::Status CheckAddress(absl::string_view field, absl::string_view address);

}  // namespace paceline
