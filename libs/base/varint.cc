#include "libs/base/varint.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace paceline {

size_t VarintSize(uint64_t value) {
  return (std::bit_width(value | 1) + 6) / 7;
}

void AppendVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

absl::StatusOr<uint64_t> TakeVarint(std::string_view& in) {
  uint64_t value = 0;
  const size_t limit = std::min(in.size(), kVarintBytesMax);
  for (size_t i = 0; i < limit; ++i) {
    const auto byte = static_cast<unsigned char>(in[i]);
    if (i == kVarintBytesMax - 1 && byte > 1) {
      break;  // 9 bytes held 63 bits; one is left
    }
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      if (byte == 0 && i > 0) {
        return absl::InvalidArgumentError(absl::StrCat("varint of ", i + 1, " bytes for ", value,
                                                       "; expected the shortest form, of ",
                                                       VarintSize(value)));
      }
      in.remove_prefix(i + 1);
      return value;
    }
  }
  if (limit < kVarintBytesMax) {
    return absl::OutOfRangeError(
        absl::StrCat("varint cut off: all of the ", limit, " bytes left say that more follow"));
  }
  return absl::InvalidArgumentError("varint does not fit 64 bits");
}

}  // namespace paceline
