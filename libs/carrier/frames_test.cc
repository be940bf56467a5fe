#include "libs/carrier/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace paceline::carrier {
namespace {

using ::testing::HasSubstr;

TEST(Frames, AHeaderIsChecked) {
  EXPECT_TRUE(CheckHeader({.size = 1000, .kind = FrameKind::kFrame}, 1000).ok());
  EXPECT_TRUE(CheckHeader({.size = 0, .kind = FrameKind::kEnd}, 1000).ok());
  const absl::Status large = CheckHeader({.size = 1001, .kind = FrameKind::kFrame}, 1000);
  EXPECT_TRUE(absl::IsResourceExhausted(large));
  EXPECT_THAT(large.message(), HasSubstr("1001 bytes; at most 1000"));
  const absl::Status unknown = CheckHeader({.size = 0, .kind = static_cast<FrameKind>(3)}, 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(unknown.message(), HasSubstr("kind 3"));
}

TEST(Frames, BytesComeInPieces) {
  FrameBytes bytes;
  for (const size_t size : {0, 1, 2'048, 2'049, 100'000, 7}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31);
    bytes.Begin(size);
    while (bytes.left() > 0) {
      const size_t piece = bytes.left() / 2 + 1;
      std::memcpy(bytes.at(), text.data() + (size - bytes.left()), piece);
      bytes.Advance(piece);
    }
    EXPECT_TRUE(bytes.Take() == text) << size;
  }
}

TEST(Frames, TheEndHasAStatus) {
  const absl::Status status = absl::ResourceExhaustedError("too much");
  EXPECT_EQ(DecodeEnd(EncodeEnd(status)), status);
  EXPECT_TRUE(DecodeEnd(EncodeEnd(absl::OkStatus())).ok());
  const absl::Status longer = DecodeEnd(EncodeEnd(absl::InternalError(std::string(100'000, 'x'))));
  EXPECT_EQ(longer.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeEnd(absl::Cord("abc"))));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeEnd(absl::Cord(std::string(4, '\xff')))));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeEnd(absl::Cord(std::string(2'000, '\0')))));
}

}  // namespace
}  // namespace paceline::carrier
