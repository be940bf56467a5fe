#include "libs/wire/replicate_frame.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::wire {
namespace {

using paceline::testing::IsOk;
using paceline::testing::StatusIs;
using ::testing::HasSubstr;

v1::ReplicateRequest SomeHead() {
  v1::ReplicateRequest head;
  head.add_beacons()->set_segment(9);
  for (const uint32_t id : {3, 4}) {
    v1::ReplicateRequest::Segment& segment = *head.add_segments();
    segment.set_segment(id);
    segment.set_epoch(5);
    segment.set_lsn(70);
    segment.set_records(2);
    segment.add_pages()->set_rows("rows");
  }
  return head;
}

ReplicateFrame SomeFrame(const absl::Cord& first, const absl::Cord& second) {
  v1::ReplicateRequest head = SomeHead();
  ReplicateFrame frame;
  frame.head.mutable_beacons()->Swap(head.mutable_beacons());
  frame.Add(head.segments(0), first);
  frame.Add(head.segments(1), second);
  return frame;
}

TEST(ReplicateFrameTest, IsAnOrdinaryMessageOnTheWire) {
  const ReplicateFrame frame =
      SomeFrame(absl::Cord(std::string(5000, 'r')), absl::Cord(std::string(3000, 's')));
  EXPECT_EQ(frame.BlobBytes(), 8000u);
  v1::ReplicateRequest whole;
  ASSERT_TRUE(whole.ParseFromString(std::string(Encode(frame))));
  EXPECT_EQ(whole.body(), std::string(5000, 'r') + std::string(3000, 's'));
  EXPECT_EQ(whole.segments(0).body_bytes(), 5000u);
  EXPECT_EQ(whole.segments(1).body_bytes(), 3000u);
  whole.clear_body();
  for (v1::ReplicateRequest::Segment& segment : *whole.mutable_segments()) segment.clear_body_bytes();
  EXPECT_EQ(whole.SerializeAsString(), SomeHead().SerializeAsString());
}

TEST(ReplicateFrameTest, ReadsBackItsFrameAndSharesItsMemory) {
  const std::string memory(1 << 20, 'r');
  auto owner = std::make_shared<int>(1);
  const ReplicateFrame written = SomeFrame(Borrow(memory, owner), absl::Cord("more"));
  const absl::Cord bytes = Encode(written);
  EXPECT_EQ(owner.use_count(), 2) << "the frame borrows the sender's memory";
  const auto frame = DecodeReplicate(bytes);
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->head.SerializeAsString(), written.head.SerializeAsString());
  const std::vector<absl::Cord> bodies = frame->Bodies();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(FlatBytes(bodies[0]).view().data(), memory.data());
  EXPECT_EQ(bodies[1], "more");
}

TEST(ReplicateFrameTest, SegmentsShareOutTheBodyExactly) {
  ReplicateFrame frame = SomeFrame(absl::Cord("some"), absl::Cord("more"));
  frame.head.mutable_segments(1)->set_body_bytes(5);
  EXPECT_THAT(DecodeReplicate(Encode(frame)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("body_bytes: 5 of segment 4")));
  frame.head.mutable_segments(1)->set_body_bytes(3);
  EXPECT_THAT(DecodeReplicate(Encode(frame)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("body: 1 bytes")));
  frame.head.mutable_segments(0)->set_body_bytes(UINT64_MAX);
  EXPECT_FALSE(DecodeReplicate(Encode(frame)).ok());
}

TEST(ReplicateFrameTest, EveryTruncationIsAnErrorOrAShorterMessage) {
  v1::ReplicateRequest whole = SomeHead();
  whole.set_body("some records");
  whole.mutable_segments(0)->set_body_bytes(12);
  const std::string bytes = whole.SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    v1::ReplicateRequest reference;
    bool reads = reference.ParseFromString(bytes.substr(0, size));
    uint64_t shares = 0;
    for (const v1::ReplicateRequest::Segment& segment : reference.segments()) shares += segment.body_bytes();
    reads = reads && shares == reference.body().size();
    EXPECT_EQ(DecodeReplicate(absl::Cord(bytes.substr(0, size))).ok(), reads) << size;
  }
}

}  // namespace
}  // namespace paceline::wire
