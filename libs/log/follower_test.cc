#include "libs/log/follower.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment_image.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr JobId kFollowedJob{1};
constexpr SessionId kPusher{7};
constexpr TableId kSecondTable{8};

struct NotedShard final : RowMemory, StagingRoom, RecordSink {
  bool Admits(uint64_t) override { return !full; }
  void Grown(int64_t by) override { bytes += by; }
  void Installed(const Segment& segment) override { installed.push_back(segment.version().v); }
  void Applied(const Segment& segment, const AppliedRecord& record) override {
    EXPECT_TRUE(record.received());
    applied.push_back(segment.version().v);
  }
  bool full = false;
  int64_t bytes = 0;
  std::vector<uint64_t> installed;  // versions of images that were taken
  std::vector<uint64_t> applied;
};

// A follower, and the primary's segment, which has two pages.
class FollowerTest : public ::testing::Test {
 protected:
  FollowerTest() {
    Write(BeginEpoch{.epoch = Epoch(2)});
    auto second = std::make_shared<TableInfo>(*SumTable(kFollowedJob));
    second->id = kSecondTable;
    Write(OpenTable{second});
    Push(5);
    Push(5, kSecondTable);
  }

  Record Write(const Record& record) {
    source.Apply(record);
    return record;
  }
  Record Push(uint64_t key, TableId table = kSumTable) {
    Update update = MakeUpdate(kPusher, ++pushed, {{key, 1.0f}});
    update.table = table;
    return Write(update);
  }
  LogPosition End() const { return {.epoch = source.epoch(), .lsn = source.version()}; }

  v1::ReplicateRequest::Segment Head(uint64_t transfer) const {
    v1::ReplicateRequest::Segment head;
    head.set_epoch(2);
    head.set_transfer(transfer);
    return head;
  }
  v1::ReplicateReply::Ack TakeImage(uint64_t transfer, bool member = false) {
    walk.emplace(source);
    v1::ReplicateRequest::Segment head = Head(transfer);
    *head.mutable_image() = ImageOf(source);
    return follower.Take(head, {}, member);
  }
  // The next page; `last`: with the word that no more will come.
  v1::ReplicateReply::Ack TakePage(uint64_t transfer, bool last = false) {
    std::vector<v1::PageImage> pages;
    EXPECT_TRUE(walk->Next(source, /*bytes_max=*/1, &pages));
    v1::ReplicateRequest::Segment head = Head(transfer);
    for (v1::PageImage& page : pages) *head.add_pages() = std::move(page);
    head.set_image_complete(last);
    return follower.Take(head, {});
  }
  v1::ReplicateReply::Ack TakeWhole(uint64_t transfer) {
    TakeImage(transfer);
    TakePage(transfer);
    return TakePage(transfer, /*last=*/true);
  }
  v1::ReplicateReply::Ack TakeRecords(uint64_t transfer, const LogPosition& before,
                                      const std::vector<Record>& records, Lsn committed = {}) {
    v1::ReplicateRequest::Segment head = Head(transfer);
    head.set_lsn(before.lsn.v);
    head.set_lsn_epoch(before.epoch.v);
    head.set_committed(committed.v);
    head.set_records(static_cast<uint32_t>(records.size()));
    absl::Cord body;
    for (const Record& record : records) AppendRecord(EncodeRecord(record), &body);
    return follower.Take(head, body);
  }
  // Sends the bytes of a record, and of its length, from `at` on.
  v1::ReplicateReply::Ack TakePiece(uint64_t transfer, const LogPosition& before, const Record& record,
                                    uint64_t at, uint64_t bytes) {
    absl::Cord body;
    AppendRecord(EncodeRecord(record), &body);
    v1::ReplicateRequest::Segment head = Head(transfer);
    head.set_lsn(before.lsn.v);
    head.set_lsn_epoch(before.epoch.v);
    head.set_record_at(at);
    head.set_records(at + bytes >= body.size() ? 1 : 0);
    return follower.Take(head, body.Subcord(at, bytes));
  }
  int64_t BytesHere() const { return static_cast<int64_t>(follower.segment()->bytes()); }

  Segment source = SegmentWith(kFollowedJob, {kPusher});
  PartNumber pushed = 0;
  std::optional<PageWalk> walk;
  std::shared_ptr<NotedShard> shard = std::make_shared<NotedShard>();
  Follower follower{SegmentId(0), /*ring_bits=*/0, shard};
};

TEST_F(FollowerTest, AnImageIsWholeWithItsLastPage) {
  v1::ReplicateReply::Ack ack = TakeImage(3);
  EXPECT_EQ(ack.segment(), 0u);
  EXPECT_EQ(ack.epoch(), 2u);
  EXPECT_EQ(ack.transfer(), 3u);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(ack.lsn(), 0u) << "its position would pass for the whole state";
  EXPECT_EQ(ack.lsn_epoch(), 0u);
  EXPECT_EQ(ack.pages(), 0u);
  EXPECT_FALSE(follower.whole());
  EXPECT_THAT(shard->installed, ElementsAre(End().lsn.v));
  EXPECT_GT(shard->bytes, 0) << "tables without rows take some";
  EXPECT_EQ(shard->bytes, BytesHere());

  ack = TakePage(3);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(ack.pages(), 1u);
  EXPECT_EQ(ack.lsn(), 0u);
  EXPECT_FALSE(follower.whole());

  ack = TakePage(3, /*last=*/true);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(ack.pages(), 2u);
  EXPECT_EQ(ack.lsn(), End().lsn.v);
  EXPECT_EQ(ack.lsn_epoch(), 2u);
  EXPECT_TRUE(follower.whole());
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
  EXPECT_EQ(follower.tail().base(), End()) << "of what came before it has no records";
  EXPECT_EQ(shard->bytes, BytesHere());
  EXPECT_EQ(shard->bytes, static_cast<int64_t>(source.bytes()));
}

TEST_F(FollowerTest, ARecordMayComeInPieces) {
  TakeWhole(3);
  const LogPosition before = End();
  const Record record = Push(6);
  v1::ReplicateReply::Ack ack = TakePiece(4, before, record, 0, 5);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(ack.lsn(), before.lsn.v);
  EXPECT_EQ(ack.record_bytes(), 5u);
  EXPECT_EQ(shard->bytes, BytesHere() + 5);
  EXPECT_EQ(TakeRecords(4, before, {}).record_bytes(), 5u) << "to be asked where it stands changes nothing";
  ack = TakePiece(4, before, record, 5, 7);
  EXPECT_EQ(ack.record_bytes(), 12u);
  EXPECT_THAT(shard->applied, IsEmpty());
  ack = TakePiece(4, before, record, 12, 1'000);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(ack.record_bytes(), 0u);
  EXPECT_EQ(ack.lsn(), End().lsn.v);
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
  EXPECT_EQ(shard->bytes, BytesHere());
  const LogPosition next = End();
  const Record second = Push(7);
  EXPECT_EQ(TakeRecords(4, next, {second}).lsn(), End().lsn.v);
}

TEST_F(FollowerTest, APieceThatDoesNotFollowIsNotTaken) {
  TakeWhole(3);
  const LogPosition before = End();
  const Record record = Push(6);
  EXPECT_EQ(TakePiece(4, before, record, 5, 7).state(), v1::ReplicateReply::BEHIND) << "the first is missing";
  TakePiece(4, before, record, 0, 5);
  EXPECT_EQ(TakePiece(4, before, record, 6, 7).state(), v1::ReplicateReply::BEHIND) << "a byte is missing";
  EXPECT_EQ(TakePiece(4, before, record, 0, 5).state(), v1::ReplicateReply::BEHIND) << "it comes twice";
  EXPECT_EQ(TakePiece(5, before, record, 5, 1'000).state(), v1::ReplicateReply::BEHIND)
      << "it was begun on another link";
  EXPECT_EQ(follower.position(), before);
  // The primary asks, and sends all of it again.
  EXPECT_EQ(TakePiece(6, before, record, 0, 5).state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(TakePiece(6, before, record, 5, 1'000).lsn(), End().lsn.v);
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
}

// The new primary may have written another record in its place.
TEST_F(FollowerTest, PiecesOfAnEarlierPrimaryAreForgotten) {
  TakeWhole(3);
  const LogPosition before = End();
  TakePiece(4, before, MakeUpdate(kPusher, pushed + 1, {{9, 1.0f}}), 0, 20);
  const Record record = Push(6);
  EXPECT_EQ(TakePiece(5, before, record, 0, 10).record_bytes(), 10u);
  EXPECT_EQ(TakePiece(5, before, record, 10, 1'000).lsn(), End().lsn.v);
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
  // Or a whole one that is small.
  const LogPosition then = End();
  TakePiece(5, then, MakeUpdate(kPusher, pushed + 1, {{9, 1.0f}}), 0, 20);
  const Record second = Push(7);
  EXPECT_EQ(TakeRecords(6, then, {second}).lsn(), End().lsn.v);
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
  EXPECT_EQ(shard->bytes, BytesHere());
}

TEST_F(FollowerTest, TheEndOfAnImageMayComeWithoutPages) {
  TakeImage(3);
  TakePage(3);
  TakePage(3);
  EXPECT_FALSE(follower.whole());
  v1::ReplicateRequest::Segment end = Head(3);
  end.set_image_complete(true);
  EXPECT_EQ(follower.Take(end, {}).lsn(), End().lsn.v);
  EXPECT_TRUE(follower.whole());
}

TEST_F(FollowerTest, AnotherImageCountsItsOwnPages) {
  TakeImage(3);
  TakePage(3);
  EXPECT_EQ(TakeImage(4).pages(), 0u);
  EXPECT_EQ(TakePage(4).pages(), 1u);
  EXPECT_EQ(TakePage(4, /*last=*/true).pages(), 2u);
  EXPECT_TRUE(follower.whole());
  EXPECT_EQ(TakeRecords(5, End(), {}).pages(), 0u) << "of another exchange";
}

// A page may be newer than the image: then it holds updates of which the records are under way.
TEST_F(FollowerTest, AnImageIsWholeOnceTheRecordsOfItsNewestPageAreApplied) {
  TakeImage(3);
  const LogPosition image = End();
  TakePage(3);
  std::vector<Record> records = {Push(6), Push(5)};
  TakePage(3, /*last=*/true);
  EXPECT_FALSE(follower.whole());
  EXPECT_EQ(follower.position(), image);
  EXPECT_EQ(TakeRecords(3, image, records).lsn(), End().lsn.v);
  EXPECT_TRUE(follower.whole());
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
}

// The newest page of an image says nothing about the next one.
TEST_F(FollowerTest, AnImageThatBeginsAgainAwaitsItsOwnPagesOnly) {
  TakeImage(3);
  Push(6);
  TakePage(3);  // newer than its image
  follower.FallBack();
  EXPECT_EQ(TakeImage(4).state(), v1::ReplicateReply::HOLDS);
  TakePage(4);
  TakePage(4, /*last=*/true);
  EXPECT_TRUE(follower.whole());
}

TEST_F(FollowerTest, RecordsDoNotContinueAnIncompleteImage) {
  TakeImage(3);
  const LogPosition image = End();
  const v1::ReplicateReply::Ack ack = TakeRecords(3, image, {Push(6)});
  EXPECT_EQ(ack.state(), v1::ReplicateReply::NO_STATE);
  EXPECT_EQ(follower.position(), image);
  EXPECT_THAT(shard->applied, IsEmpty());
}

TEST_F(FollowerTest, OnlyRecordsThatContinueItsLogAreApplied) {
  TakeWhole(3);
  const LogPosition before = End();
  const std::vector<Record> records = {Push(6), Push(7)};
  for (const LogPosition wrong :
       {LogPosition{before.epoch, Lsn(before.lsn.v + 1)}, LogPosition{before.epoch, Lsn(before.lsn.v - 1)},
        LogPosition{Epoch(1), before.lsn}}) {
    const v1::ReplicateReply::Ack ack = TakeRecords(3, wrong, records);
    EXPECT_EQ(ack.state(), v1::ReplicateReply::BEHIND);
    EXPECT_EQ(ack.lsn(), before.lsn.v) << "where it stands";
    EXPECT_EQ(ack.lsn_epoch(), 2u);
  }
  EXPECT_THAT(shard->applied, IsEmpty());
  const v1::ReplicateReply::Ack ack = TakeRecords(3, before, records);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::HOLDS);
  EXPECT_EQ(ack.lsn(), End().lsn.v);
  EXPECT_THAT(shard->applied, ElementsAre(before.lsn.v + 1, before.lsn.v + 2));
  EXPECT_EQ(follower.segment()->Hash(), source.Hash());
  EXPECT_EQ(shard->bytes, static_cast<int64_t>(source.bytes()));
}

TEST_F(FollowerTest, WithoutAStateItTakesNoRecords) {
  EXPECT_EQ(TakeRecords(3, LogPosition{}, {Push(6)}).state(), v1::ReplicateReply::NO_STATE);
  EXPECT_THAT(shard->applied, IsEmpty());
}

TEST_F(FollowerTest, CountsTheMemoryOfASingleRecord) {
  TakeWhole(3);
  const LogPosition before = End();
  const int64_t bytes = shard->bytes;
  std::vector<std::pair<uint64_t, float>> rows;
  for (uint64_t key = 100; key < 1100; ++key) rows.emplace_back(key, 1.0f);
  TakeRecords(3, before, {Write(MakeUpdate(kPusher, ++pushed, rows))});
  EXPECT_GT(shard->bytes, bytes);
  EXPECT_EQ(shard->bytes, BytesHere());
}

TEST_F(FollowerTest, KeepsTheRecordsThatSomeMemberMayLack) {
  TakeWhole(3);
  const LogPosition begin = End();
  TakeRecords(3, begin, {Push(6), Push(7), Push(8)}, /*committed=*/Lsn(begin.lsn.v + 1));
  EXPECT_EQ(follower.tail().base().lsn, Lsn(begin.lsn.v + 1));
  EXPECT_EQ(follower.tail().end(), End());
  TakeRecords(3, End(), {}, /*committed=*/Lsn(begin.lsn.v + 2));
  EXPECT_EQ(follower.tail().base().lsn, Lsn(begin.lsn.v + 2)) << "the primary's word alone";
}

TEST_F(FollowerTest, WhatCannotBeAppliedLeavesNothing) {
  TakeWhole(3);
  const LogPosition before = End();
  const Record unknown = MakeUpdate(SessionId(99), 1, {{5, 1.0f}});
  const v1::ReplicateReply::Ack ack = TakeRecords(3, before, {Push(6), unknown});
  EXPECT_EQ(ack.state(), v1::ReplicateReply::NO_STATE);
  EXPECT_EQ(follower.segment(), nullptr);
  EXPECT_EQ(follower.position(), LogPosition{});
  EXPECT_EQ(follower.fallback(), LogPosition{});
  EXPECT_EQ(shard->bytes, 0);
}

TEST_F(FollowerTest, PagesOfAnotherImageAreRefused) {
  EXPECT_EQ(follower
                .Take(
                    [&] {
                      v1::ReplicateRequest::Segment end = Head(0);
                      end.set_image_complete(true);
                      return end;
                    }(),
                    {})
                .state(),
            v1::ReplicateReply::NO_STATE)
      << "there is none";
  TakeImage(3);
  EXPECT_EQ(TakePage(2).state(), v1::ReplicateReply::NO_STATE);
  EXPECT_EQ(follower.segment(), nullptr) << "something was lost on the way";

  TakeWhole(4);
  walk.emplace(source);
  EXPECT_EQ(TakePage(4).state(), v1::ReplicateReply::NO_STATE) << "it has all of them";
}

TEST_F(FollowerTest, APageThatIsBadEndsTheImage) {
  TakeImage(3);
  v1::ReplicateRequest::Segment head = Head(3);
  std::vector<v1::PageImage> pages;
  ASSERT_TRUE(walk->Next(source, 1, &pages));
  *head.add_pages() = pages[0];
  head.mutable_pages(0)->set_version(End().lsn.v - 1);  // records have overtaken it
  EXPECT_EQ(follower.Take(head, {}).state(), v1::ReplicateReply::NO_STATE);
  EXPECT_EQ(follower.segment(), nullptr);
}

// -- the state that an image is to replace --

TEST_F(FollowerTest, AMemberKeepsWhatItHas) {
  TakeWhole(3);
  const LogPosition here = End();
  Push(6);
  const v1::ReplicateReply::Ack ack = TakeImage(4, /*member=*/true);
  EXPECT_EQ(ack.state(), v1::ReplicateReply::NO_STATE);
  EXPECT_EQ(follower.position(), here);
  EXPECT_TRUE(follower.whole());
  EXPECT_FALSE(follower.keeps());
  EXPECT_THAT(shard->installed, ElementsAre(here.lsn.v));
}

TEST_F(FollowerTest, AMemberWithoutAStateTakesAnImage) {
  EXPECT_EQ(TakeImage(3, /*member=*/true).state(), v1::ReplicateReply::HOLDS);
  EXPECT_NE(follower.segment(), nullptr);
}

TEST_F(FollowerTest, AStateIsKeptUntilTheImageIsWhole) {
  TakeWhole(3);
  const LogPosition old = End();
  const int64_t bytes = BytesHere();
  Push(6);
  TakeImage(4);
  EXPECT_TRUE(follower.keeps());
  EXPECT_EQ(follower.fallback(), old);
  EXPECT_EQ(shard->bytes, bytes + BytesHere());
  TakePage(4);
  EXPECT_TRUE(follower.keeps());
  TakePage(4, /*last=*/true);
  EXPECT_FALSE(follower.keeps());
  EXPECT_EQ(follower.fallback(), End());
  EXPECT_EQ(shard->bytes, BytesHere());
}

TEST_F(FollowerTest, AnImageThatFailsGivesTheKeptStateBack) {
  TakeWhole(3);
  const LogPosition old = End();
  Push(6);
  TakeImage(4);
  EXPECT_EQ(TakePage(5).state(), v1::ReplicateReply::NO_STATE);
  EXPECT_FALSE(follower.keeps());
  EXPECT_TRUE(follower.whole());
  EXPECT_EQ(follower.position(), old);
  EXPECT_EQ(shard->bytes, BytesHere());
  EXPECT_THAT(shard->installed, ElementsAre(old.lsn.v, End().lsn.v, old.lsn.v));
}

TEST_F(FollowerTest, AnImageThatCannotBeReadReplacesNothing) {
  TakeWhole(3);
  const LogPosition old = End();
  v1::ReplicateRequest::Segment head = Head(4);
  *head.mutable_image() = ImageOf(source);
  head.mutable_image()->set_segment(1);
  EXPECT_EQ(follower.Take(head, {}).state(), v1::ReplicateReply::NO_STATE);
  EXPECT_EQ(follower.segment(), nullptr);
  EXPECT_EQ(follower.fallback(), old);
  follower.FallBack();
  EXPECT_EQ(follower.position(), old);
  EXPECT_TRUE(follower.whole());
}

TEST_F(FollowerTest, TheKeptStateGivesWayWhenMemoryIsShort) {
  TakeWhole(3);
  Push(6);
  shard->full = true;
  TakeImage(4);
  EXPECT_FALSE(follower.keeps());
  EXPECT_EQ(follower.fallback(), LogPosition{});
  EXPECT_EQ(shard->bytes, BytesHere());
}

}  // namespace
}  // namespace paceline::log
