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
