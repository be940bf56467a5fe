#include "libs/engine/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::engine {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

std::string GroupOf(const std::vector<LogEntry>& entries) {
  std::string group;
  for (const LogEntry& entry : entries) group += EntryHead(entry) + std::string(entry.record);
  return group;
}

std::vector<LogEntry> Two() {
  return {{.segment = SegmentId(3), .epoch = Epoch(2), .lsn = Lsn(10), .record = absl::Cord("first")},
          {.segment = SegmentId(4), .epoch = Epoch(9), .lsn = Lsn(1), .record = absl::Cord()}};
}

absl::Status Parse(absl::string_view bytes, std::vector<LogEntry>* found) {
  return ParseGroup(bytes, [found](LogEntry entry) {
    found->push_back(std::move(entry));
    return absl::OkStatus();
  });
}

TEST(FormatTest, AGroupIsTakenApartAgain) {
  std::vector<LogEntry> found;
  ASSERT_THAT(Parse(GroupOf(Two()), &found), IsOk());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].segment, SegmentId(3));
  EXPECT_EQ(found[0].epoch, Epoch(2));
  EXPECT_EQ(found[0].lsn, Lsn(10));
  EXPECT_EQ(found[0].record, "first");
  EXPECT_EQ(found[1].lsn, Lsn(1));
  EXPECT_EQ(found[1].record, "");
}

// The bytes of docs/formats.md.
TEST(FormatTest, ARecordsHeadIsAsDocumented) {
  const std::string head = EntryHead(Two()[0]);
  ASSERT_EQ(head.size(), kEntryHeadBytes);
  EXPECT_EQ(head.substr(4),
            std::string("\x03\0\0\0\x02\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0", 28));
}

TEST(FormatTest, EveryFlippedBitOfAGroupIsFound) {
  const std::string group = GroupOf(Two());
  for (size_t i = 0; i < group.size() * 8; ++i) {
    std::string damaged = group;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    std::vector<LogEntry> found;
    EXPECT_THAT(Parse(damaged, &found), StatusIs(StatusCode::kDataLoss)) << "bit " << i;
  }
}

TEST(FormatTest, EveryCutOfAGroupIsFound) {
  const std::string group = GroupOf(Two());
  const size_t first = kEntryHeadBytes + 5;
  for (size_t n = 1; n < group.size(); ++n) {
    std::vector<LogEntry> found;
    const absl::Status parsed = Parse(absl::string_view(group).substr(0, n), &found);
    if (n == first) {
      EXPECT_THAT(parsed, IsOk()) << "a whole record";
    } else {
      EXPECT_THAT(parsed, StatusIs(StatusCode::kDataLoss)) << n;
    }
  }
}

TEST(FormatTest, KeysSortAsTheirNumbers) {
  EXPECT_LT(GroupKey(255), GroupKey(256));
  EXPECT_LT(SegmentKey(SegmentId(255)), SegmentKey(SegmentId(256)));
  const PageKey small{.table = TableId(2), .start = 1, .depth = 64};
  const PageKey large{.table = TableId(2), .start = uint64_t{1} << 63, .depth = 1};
  EXPECT_LT(PageKeyBytes(SegmentId(1), small), PageKeyBytes(SegmentId(1), large));
  EXPECT_LT(PageKeyBytes(SegmentId(1), large), SegmentKey(SegmentId(2)));
  const auto parsed = ParsePageKey(PageKeyBytes(SegmentId(7), large));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->first, SegmentId(7));
  EXPECT_EQ(parsed->second, large);
  EXPECT_THAT(ParsePageKey("short"), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(ParseGroupKey("short"), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(ParseSegmentKey("longer"), StatusIs(StatusCode::kDataLoss));
}

TEST(FormatTest, ASegmentsHeadIsChecked) {
  const std::string bytes =
      EncodeSegmentHead({.first_group = 5, .has_base = true, .lsn = Lsn(9), .base = "image"});
  const auto head = DecodeSegmentHead(bytes);
  ASSERT_THAT(head, IsOk());
  EXPECT_EQ(head->first_group, 5u);
  EXPECT_TRUE(head->has_base);
  EXPECT_EQ(head->lsn, Lsn(9));
  EXPECT_EQ(head->base, "image");
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string damaged = bytes;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    EXPECT_THAT(DecodeSegmentHead(damaged), StatusIs(StatusCode::kDataLoss)) << "bit " << i;
  }
  EXPECT_THAT(DecodeSegmentHead(Checked("too short")), StatusIs(StatusCode::kDataLoss, HasSubstr("17")));
}

}  // namespace
}  // namespace paceline::engine
