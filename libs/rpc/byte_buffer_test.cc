#include "libs/rpc/byte_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::rpc {
namespace {

absl::Cord InPieces(const std::vector<size_t>& sizes) {
  absl::Cord cord;
  char letter = 'a';
  for (size_t size : sizes) {
    auto* piece = new std::string(size, letter++);
    cord.Append(absl::MakeCordFromExternal(*piece, [piece] { delete piece; }));
  }
  return cord;
}

TEST(ByteBuffer, EveryShapeOfCordSurvivesTheRoundTrip) {
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{{},
                                                                           {1},
                                                                           {15},
                                                                           {2047},
                                                                           {2048},
                                                                           {1'000'000},
                                                                           {3, 70'000, 12, 12, 5'000},
                                                                           std::vector<size_t>(300, 90)}) {
    const absl::Cord cord = InPieces(sizes);
    const grpc::ByteBuffer buffer = ToByteBuffer(cord);
    EXPECT_EQ(buffer.Length(), cord.size());
    const absl::StatusOr<absl::Cord> back = ToCord(buffer);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, cord);
  }
}

TEST(ByteBuffer, BigPiecesAreSharedNotCopied) {
  const absl::Cord cord = InPieces({100'000});
  const absl::StatusOr<absl::Cord> back = ToCord(ToByteBuffer(cord));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->TryFlat()->data(), cord.TryFlat()->data());
}

TEST(ByteBuffer, MemoryLivesUntilTheLastBorrowerIsGone) {
  bool released = false;
  std::string bytes(10'000, 'x');
  absl::Cord cord = absl::MakeCordFromExternal(bytes, [&released] { released = true; });
  {
    grpc::ByteBuffer buffer = ToByteBuffer(cord);
    cord.Clear();
    EXPECT_FALSE(released);
    cord = *ToCord(buffer);
  }
  EXPECT_FALSE(released);
  cord.Clear();
  EXPECT_TRUE(released);
}

}  // namespace
}  // namespace paceline::rpc
