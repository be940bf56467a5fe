#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"

// How frames lie in a pipe, one after the other: a header, and as many bytes as it says. All numbers are
// little-endian.
namespace paceline::carrier {

enum class FrameKind : uint32_t {
  kFrame = 1,
  kEnd = 2,  // the last one: the stream's final status
};

struct FrameHeader {
  uint32_t size = 0;
  FrameKind kind = FrameKind::kFrame;
};
static_assert(sizeof(FrameHeader) == 8);

// What is wrong with a header that a peer has sent. INVALID_ARGUMENT: nobody knows such a kind;
// RESOURCE_EXHAUSTED: a frame may have at most `bytes_max` bytes.
absl::Status CheckHeader(const FrameHeader& header, uint64_t bytes_max);

// The bytes of a frame, as they come piece by piece.
class FrameBytes {
 public:
  // A frame of `size` bytes begins.
  void Begin(size_t size);
  // Where the next bytes go, at most left() of them.
  char* at() { return (size_ > kSmall ? large_.get() : small_) + got_; }
  size_t left() const { return size_ - got_; }
  void Advance(size_t bytes) { got_ += bytes; }
  // The whole frame. REQUIRES: left() is 0.
  absl::Cord Take();

 private:
  static constexpr size_t kSmall = 2048;  // so many bytes are copied once more instead of allocated for
  size_t size_ = 0;
  size_t got_ = 0;
  char small_[kSmall];
  std::unique_ptr<char[]> large_;
};

// The bytes of a frame of kind kEnd.
absl::Cord EncodeEnd(const absl::Status& status);
// INVALID_ARGUMENT: they are none.
absl::Status DecodeEnd(const absl::Cord& bytes);

}  // namespace paceline::carrier
