#include "libs/wire/frame.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::wire {
namespace {

using paceline::testing::IsOk;
using paceline::testing::IsOkAndHolds;
using paceline::testing::StatusIs;

v1::PushRequest SomeHead() {
  v1::PushRequest head;
  head.set_table(7);
  head.set_clock(300);
  head.set_parts("twenty-four bytes of part");
  head.mutable_tick()->set_clock(301);
  head.add_filters(9);
  return head;
}

absl::Cord InPieces(absl::string_view bytes, size_t piece) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    // External chunks stay apart, as receive buffers do.
    cord.Append(absl::MakeCordFromExternal(bytes.substr(at, piece), [](absl::string_view) {}));
  }
  return cord;
}

TEST(FrameTest, IsAnOrdinaryMessageOnTheWire) {
  Frame<v1::PushRequest> frame{SomeHead(), absl::Cord(std::string(16, 'k')),
                               absl::Cord(std::string(5000, 'v'))};
  v1::PushRequest whole;
  ASSERT_TRUE(whole.ParseFromString(std::string(Encode(frame))));
  EXPECT_EQ(whole.table(), 7u);
  EXPECT_EQ(whole.keys(), std::string(16, 'k'));
  EXPECT_EQ(whole.values(), std::string(5000, 'v'));
}

TEST(FrameTest, ReadsAnOrdinaryMessageHoweverItIsCut) {
  v1::PushRequest whole = SomeHead();
  whole.set_keys(std::string(800, 'k'));
  whole.set_values(std::string(3000, 'v'));
  const std::string bytes = whole.SerializeAsString();
  for (size_t piece : {size_t{1}, size_t{7}, size_t{100}, bytes.size()}) {
    const auto frame = Decode<v1::PushRequest>(InPieces(bytes, piece));
    ASSERT_THAT(frame, IsOk());
    EXPECT_EQ(frame->head.SerializeAsString(), SomeHead().SerializeAsString());
    EXPECT_EQ(frame->keys, whole.keys());
    EXPECT_EQ(frame->values, whole.values());
  }
}

TEST(FrameTest, SharesBigBlobs) {
  const std::string memory(1 << 20, 'v');
  auto owner = std::make_shared<int>(1);
  Frame<v1::PushRequest> frame{{}, {}, Borrow(memory, owner)};
  const absl::Cord encoded = Encode(frame);
  frame = {};
  EXPECT_EQ(owner.use_count(), 2) << "the encoded frame borrows the sender's memory";
  const auto decoded = Decode<v1::PushRequest>(encoded);
  const FlatBytes flat(decoded->values);
  EXPECT_EQ(flat.view().data(), memory.data());
}

TEST(FlatPiecesTest, BorrowPiecesWithinAChunkAndCopyTheRest) {
  constexpr size_t kUnit = 1000;  // a Cord copies chunks of a few hundred bytes
  std::string memory(26 * kUnit, '\0');
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<char>(i * 7 + i / 256);
  const absl::string_view bytes = memory;
  for (size_t cut = 0; cut <= bytes.size(); cut += kUnit) {
    const std::string elsewhere(bytes.substr(cut));  // the second chunk, not behind the first
    absl::Cord cord;
    for (const absl::string_view chunk : {bytes.substr(0, cut), absl::string_view(elsewhere)}) {
      if (!chunk.empty()) cord.Append(absl::MakeCordFromExternal(chunk, [](absl::string_view) {}));
    }
    FlatPieces pieces(cord);
    EXPECT_EQ(pieces.size(), bytes.size());
    size_t at = 0;
    for (const size_t units : {0, 5, 1, 13, 0, 7}) {
      const size_t size = units * kUnit;
      const absl::string_view piece = pieces.Next(size);
      EXPECT_EQ(piece, bytes.substr(at, size));
      const bool cut_through = at < cut && cut < at + size;
      const char* place = at < cut ? bytes.data() + at : elsewhere.data() + (at - cut);
      EXPECT_EQ(size == 0 || piece.data() == place, !cut_through) << "cut at " << cut;
      at += size;
    }
  }
}

TEST(FlatPiecesTest, BorrowAcrossChunksThatFollowEachOther) {
  const std::string memory(4000, 'v');
  const absl::string_view bytes = memory;
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += 1000) {
    cord.Append(absl::MakeCordFromExternal(bytes.substr(at, 1000), [](absl::string_view) {}));
  }
  FlatPieces pieces(cord);
  EXPECT_EQ(pieces.Next(2500).data(), bytes.data());
  EXPECT_EQ(pieces.Next(1500).data(), bytes.data() + 2500);
}

TEST(FrameTest, EveryTruncationIsAnErrorOrAShorterMessage) {
  v1::PushRequest whole = SomeHead();
  whole.set_keys("0123456789abcdef");
  const std::string bytes = whole.SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    v1::PushRequest reference;
    const bool parses = reference.ParseFromString(bytes.substr(0, size));
    EXPECT_EQ(Decode<v1::PushRequest>(absl::Cord(bytes.substr(0, size))).ok(), parses) << size;
  }
}

TEST(FrameTest, AFlatFrameReadsTheSameOrFails) {
  const std::string keys(16, 'k');
  const std::string values(3000, 'v');
  const absl::Cord frame = JoinFlat(SomeHead(), keys, values);
  EXPECT_EQ(frame, JoinFrame(SomeHead(), absl::Cord(keys), absl::Cord(values)));
  ASSERT_TRUE(frame.TryFlat().has_value());
  const auto flat = SplitFlat(*frame.TryFlat());
  ASSERT_TRUE(flat.has_value());
  EXPECT_EQ(flat->head, SomeHead().SerializeAsString());
  EXPECT_EQ(flat->keys, keys);
  EXPECT_EQ(flat->values, values);

  const std::string small(JoinFlat(SomeHead(), keys, "values"));
  world::SplitMix64 random(18);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = small.substr(0, world::Uniform(random, small.size() + 1));
    for (uint64_t flips = world::Uniform(random, 3); flips > 0 && !bytes.empty(); --flips) {
      bytes[world::Uniform(random, bytes.size())] = static_cast<char>(random.Next());
    }
    const auto one = SplitFlat(bytes);
    if (!one.has_value()) continue;
    ++read;
    const auto reference = SplitFrame(absl::Cord(bytes));
    ASSERT_THAT(reference, IsOk());
    EXPECT_EQ(reference->head, one->head);
    EXPECT_EQ(reference->keys, one->keys);
    EXPECT_EQ(reference->values, one->values);
  }
  EXPECT_GT(read, 1000);
}

TEST(FrameTest, SurvivesRandomBytes) {
  world::SplitMix64 random(17);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(world::Uniform(random, 64), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Next());
    const auto frame = Decode<v1::PushRequest>(absl::Cord(bytes));
    v1::PushRequest reference;
    // Protobuf also knows groups; everything else both must judge alike.
    if (frame.ok()) {
      EXPECT_TRUE(reference.ParseFromString(bytes));
    }
  }
}

}  // namespace
}  // namespace paceline::wire
