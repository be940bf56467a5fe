#include "services/shard/disk/disk_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::shard {
namespace {

using Step = DiskQueue::Step;

engine::Batch Batch(uint64_t lsn) {
  engine::Batch batch;
  batch.Add(engine::LogEntry{
      .segment = SegmentId(1), .epoch = Epoch(1), .lsn = Lsn(lsn), .record = absl::Cord("record")});
  return batch;
}

class DiskQueueTest : public ::testing::Test {
 protected:
  void Add(uint64_t lsn, bool waits) {
    Disk::Synced synced;
    if (waits) synced = [this, lsn] { told_.push_back(lsn); };
    queue_.Add(Batch(lsn), std::move(synced));
  }
  void Done(Step step, const absl::Status& status = absl::OkStatus()) {
    DiskQueue::Group ended = queue_.Done(step, status, now_);
    for (Disk::Synced& synced : ended.waiting) synced();
  }

  DiskQueue queue_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<uint64_t> told_;
};

TEST_F(DiskQueueTest, WaitersAreToldOnceTheirBatchIsSynced) {
  EXPECT_EQ(queue_.Next(now_), Step::kNothing);
  EXPECT_EQ(queue_.Due(), absl::InfiniteFuture());
  Add(1, true);
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  Add(2, true);  // not of the group in hand
  Add(3, false);
  EXPECT_EQ(queue_.batch().operations().size(), 1u);
  Done(Step::kWrite);
  EXPECT_TRUE(told_.empty());
  ASSERT_EQ(queue_.Next(now_), Step::kSync);
  Done(Step::kSync);
  EXPECT_THAT(told_, ::testing::ElementsAre(1));
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  EXPECT_EQ(queue_.batch().operations().size(), 2u);
  Done(Step::kWrite);
  ASSERT_EQ(queue_.Next(now_), Step::kSync);
  Done(Step::kSync);
  EXPECT_THAT(told_, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(queue_.pending_bytes(), 0u);
  EXPECT_FALSE(queue_.unsynced());
}

TEST_F(DiskQueueTest, BatchesWithoutWaitersAreSyncedOnceASecond) {
  for (int i = 0; i < 25; ++i) {  // though there is always something to write
    Add(static_cast<uint64_t>(i), false);
    const Step step = queue_.Next(now_);
    Done(step);
    if (step == Step::kSync) Done(queue_.Next(now_));
    now_ += absl::Milliseconds(100);
  }
  EXPECT_EQ(queue_.done().syncs, 2u);
  EXPECT_EQ(queue_.Due(), absl::UnixEpoch() + absl::Seconds(3));
  EXPECT_EQ(queue_.Next(queue_.Due() - absl::Milliseconds(1)), Step::kNothing);
  EXPECT_EQ(queue_.Next(queue_.Due()), Step::kSync);
}

TEST_F(DiskQueueTest, AFailedStepIsRepeatedUnchanged) {
  Add(1, true);
  for (int tries = 0; tries < 3; ++tries) {
    ASSERT_EQ(queue_.Next(now_), Step::kWrite);
    Done(Step::kWrite, absl::ResourceExhaustedError("full"));
    Add(10, false);
    EXPECT_EQ(queue_.Next(now_), Step::kNothing);
    EXPECT_EQ(queue_.Due(), now_ + DiskQueue::kRetryAfter);
    now_ = queue_.Due();
  }
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  EXPECT_EQ(queue_.batch().operations().size(), 1u);
  Done(Step::kWrite);
  ASSERT_EQ(queue_.Next(now_), Step::kSync);
  Done(Step::kSync, absl::UnavailableError("no"));
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(queue_.Next(now_), Step::kNothing);
  now_ = queue_.Due();
  ASSERT_EQ(queue_.Next(now_), Step::kSync);
  Done(Step::kSync);
  EXPECT_THAT(told_, ::testing::ElementsAre(1));
}

// -- how the disk stands --

TEST_F(DiskQueueTest, AMomentsFailureIsNoTroubleYetAndASecondsIs) {
  using State = Disk::Health::State;
  Add(1, true);
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  Done(Step::kWrite, absl::ResourceExhaustedError("no space left"));
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kWorks);
  now_ += kDiskFails;
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kFull);
  EXPECT_EQ(queue_.HealthAt(now_).why, "no space left");
  EXPECT_EQ(queue_.HealthAt(now_).lasts, kDiskFails);
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  Done(Step::kWrite, absl::UnavailableError("input/output error"));
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kFails) << "what it said last";
  now_ += DiskQueue::kRetryAfter;
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  Done(Step::kWrite);
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kWorks);
}

TEST_F(DiskQueueTest, AWriteDoesNotMendASync) {
  using State = Disk::Health::State;
  Add(1, false);
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  Done(Step::kWrite);
  now_ += DiskQueue::kSyncEvery;
  ASSERT_EQ(queue_.Next(now_), Step::kSync);
  Done(Step::kSync, absl::UnavailableError("input/output error"));
  Add(2, false);
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  Done(Step::kWrite);
  now_ += kDiskFails;
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kFails);
  ASSERT_EQ(queue_.Next(now_), Step::kSync);
  Done(Step::kSync);
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kWorks);
}

TEST_F(DiskQueueTest, AStepThatTakesLongIsSlowAndOneThatDoesNotComeBackHangs) {
  using State = Disk::Health::State;
  Add(1, false);
  ASSERT_EQ(queue_.Next(now_), Step::kWrite);
  now_ += 2 * kDiskStepSlow;
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kSlow);
  now_ += kDiskHangs;
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kFails);
  Done(Step::kWrite);
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kSlow) << "it did just now";
  now_ += absl::Minutes(1);
  EXPECT_EQ(queue_.HealthAt(now_).state, State::kWorks);
}

}  // namespace
}  // namespace paceline::shard
