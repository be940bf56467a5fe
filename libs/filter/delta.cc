#include "libs/filter/delta.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/varint.h"

namespace paceline::filter {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

uint64_t ZigZag(uint64_t difference) {
  return (difference << 1) ^ (uint64_t{0} - (difference >> 63));
}
uint64_t UnZigZag(uint64_t coded) {
  return (coded >> 1) ^ (uint64_t{0} - (coded & 1));
}

}  // namespace

std::string EncodeDelta(absl::string_view keys, size_t stride) {
  std::string out(keys.size() / kWord * kVarintBytesMax, '\0');
  char* to = out.data();
  for (size_t at = 0; at + kWord <= keys.size(); at += kWord) {
    const uint64_t before = at < stride * kWord ? 0 : LoadU64(keys.data() + at - stride * kWord);
    uint64_t rest = ZigZag(LoadU64(keys.data() + at) - before);
    for (; rest >= 0x80; rest >>= 7) *to++ = static_cast<char>(rest | 0x80);
    *to++ = static_cast<char>(rest);
  }
  out.resize(static_cast<size_t>(to - out.data()));
  return out;
}

absl::StatusOr<std::string> DecodeDelta(absl::string_view coded, size_t stride, size_t bytes_max) {
  size_t words = 0;
  for (const char byte : coded) words += (byte & 0x80) == 0 ? 1 : 0;
  if (words > bytes_max / kWord) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys: delta: ", words, " words; at most ", bytes_max, " bytes are taken"));
  }
  if (!coded.empty() && (coded.back() & 0x80) != 0) {
    return absl::InvalidArgumentError("keys: delta: the last number is cut off");
  }
  std::string out(words * kWord, '\0');
  const char* from = coded.data();
  for (size_t at = 0; at < out.size(); at += kWord) {
    uint64_t number = 0;
    int shift = 0;
    for (;; shift += 7) {
      const auto byte = static_cast<uint8_t>(*from++);
      if (shift == 63 && byte > 1) {
        return absl::InvalidArgumentError("keys: delta: a number has more than 64 bits");
      }
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) break;
    }
    const uint64_t before = at < stride * kWord ? 0 : LoadU64(out.data() + at - stride * kWord);
    StoreU64(before + UnZigZag(number), out.data() + at);
  }
  return out;
}

}  // namespace paceline::filter
