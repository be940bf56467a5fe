#include "libs/base/text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// How many bytes the character at the front of `text` has; 0: it is none. `code` is which one it is.
size_t Utf8Length(absl::string_view text, uint32_t* code) {
  const auto at = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  *code = first;
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  *code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    *code = *code << 6 | (at(i) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
  return *code < kSmallest[length] || *code > 0x10FFFF || surrogate ? 0 : length;
}

bool Harmless(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  // Line ends, and marks that turn the direction of the text after them.
  return code != 0x061C && (code < 0x200E || code > 0x200F) && (code < 0x2028 || code > 0x202E) &&
         (code < 0x2066 || code > 0x2069) && code != 0xFEFF;
}

std::string Escape(absl::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = Utf8Length(text, &code);
    const bool stays = length > 0 && (Harmless(code) || (lines && (code == '\n' || code == '\t')));
    for (const char c : text.substr(0, std::max<size_t>(length, 1))) {
      if (stays) {
        out.push_back(c);
      } else {
        absl::StrAppend(&out, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
      }
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

bool AllOf(absl::string_view text, absl::string_view also) {
  return std::all_of(text.begin(), text.end(), [also](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(also, c);
  });
}

constexpr absl::string_view kInNames = "._-/:";

bool IsHost(absl::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return AllOf(host.substr(1, host.size() - 2), ":.%_-");
  }
  return !host.empty() && AllOf(host, "._-");
}

}  // namespace

std::string Escaped(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return Escape(text, /*lines=*/false);
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(Escape(text.substr(0, end), /*lines=*/false), " …");
}

std::string EscapedLines(absl::string_view text) {
  return Escape(text, /*lines=*/true);
}

absl::Status CheckName(absl::string_view field, absl::string_view name, size_t bytes_max) {
  if (!name.empty() && name.size() <= bytes_max && AllOf(name, kInNames)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", Escaped(name, bytes_max), "'; expected 1 to ",
                                                 bytes_max, " letters, digits and characters of ", kInNames));
}

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", text.size(), " bytes; expected at most ", bytes_max));
  }
  const std::string escaped = Escape(text, /*lines=*/false);
  if (escaped == text) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", escaped, "'; expected UTF-8 without control characters and ends of lines"));
}

absl::Status CheckAddress(absl::string_view field, absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon != absl::string_view::npos && address.size() <= kTextBytesMax &&
      IsHost(address.substr(0, colon)) && AllOf(address, ":.%_-[]") && address.size() - colon <= 6 &&
      std::all_of(address.begin() + static_cast<std::ptrdiff_t>(colon) + 1, address.end(),
                  [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }) &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", Escaped(address, kTextBytesMax),
                                                 "'; expected HOST:PORT, with an IPv6 address in brackets"));
}

}  // namespace paceline
