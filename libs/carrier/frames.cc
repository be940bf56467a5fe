#include "libs/carrier/frames.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::carrier {
namespace {

constexpr size_t kMessageMax = 1024;
constexpr size_t kEndMax = sizeof(uint32_t) + kMessageMax;

}  // namespace

absl::Status CheckHeader(const FrameHeader& header, uint64_t bytes_max) {
  if (header.kind != FrameKind::kFrame && header.kind != FrameKind::kEnd) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame has kind ", static_cast<uint32_t>(header.kind), ", which is not known"));
  }
  if (header.kind == FrameKind::kEnd) bytes_max = std::min<uint64_t>(bytes_max, kEndMax);
  if (header.size <= bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a frame has ", header.size, " bytes; at most ", bytes_max, " are taken"));
}

void FrameBytes::Begin(size_t size) {
  size_ = size;
  got_ = 0;
  // Not a std::string, nor make_unique: they would write zeros to all of its memory first.
  if (size_ > kSmall) large_.reset(new char[size_]);
}

absl::Cord FrameBytes::Take() {
  if (size_ <= kSmall) return absl::Cord(absl::string_view(small_, size_));
  const absl::string_view bytes(large_.get(), size_);
  return absl::MakeCordFromExternal(bytes, [owner = std::move(large_)](absl::string_view) {});
}

absl::Cord EncodeEnd(const absl::Status& status) {
  const auto code = static_cast<uint32_t>(status.code());
  std::string bytes(reinterpret_cast<const char*>(&code), sizeof(code));
  absl::StrAppend(&bytes, status.message().substr(0, kMessageMax));
  return absl::Cord(bytes);
}

absl::Status DecodeEnd(const absl::Cord& bytes) {
  uint32_t code = 0;
  if (bytes.size() < sizeof(code) || bytes.size() > kEndMax) {
    return absl::InvalidArgumentError(absl::StrCat("the end of a stream has ", bytes.size(), " bytes"));
  }
  const std::string flat(bytes);
  std::memcpy(&code, flat.data(), sizeof(code));
  if (code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError(absl::StrCat("the end of a stream has code ", code));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), flat.substr(sizeof(code)));
}

}  // namespace paceline::carrier
