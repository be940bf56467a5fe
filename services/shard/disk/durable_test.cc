// The members of one segment, each with a disk: acknowledged parts are on all of them.
#include "services/shard/test_util/durable.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(DurableTest, WithoutReplicasAPartIsAcknowledgedOnceItIsSynced) {
  Start({});
  EXPECT_FALSE(Push(a, 1, 1));
  EXPECT_FALSE(Push(a, 2, 1));
  EXPECT_FALSE(Push(a, 2, 1)) << "it came before";
  EXPECT_THAT(acks->numbers, IsEmpty());
  EXPECT_THAT(a.host.primary()->replicas().WaitsFor(), HasSubstr("its own disk"));
  a.Sync();
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2, 2)) << "one sync for all";
}

TEST_F(DurableTest, APartIsAcknowledgedWhenEveryDiskHasIt) {
  Start({1});
  Push(a, 1, 1);
  Deliver();
  EXPECT_THAT(acks->numbers, IsEmpty()) << "it is in the memory of both";
  a.Sync();
  Deliver();
  EXPECT_THAT(acks->numbers, IsEmpty());
  b.Sync();
  EXPECT_THAT(acks->numbers, IsEmpty()) << "the primary has not heard";
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  Push(a, 2, 1);
  Deliver();
  b.Sync();
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1)) << "its own disk counts as well";
  a.Sync();
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2));
}

// The memory of the record `lsn` that a member keeps for others, and of the one that it gave its disk.
std::pair<const char*, const char*> MemoryOf(const log::LogTail& tail, const engine::Batch& batch, Lsn lsn) {
  absl::Cord kept;
  EXPECT_GE(tail.Gather(Lsn(lsn.v - 1), 1, &kept), 1u);
  const char* last = nullptr;  // behind its length
  for (const absl::string_view chunk : kept.Chunks()) last = chunk.data();
  for (const engine::Batch::Operation& operation : batch.operations()) {
    const auto* entry = std::get_if<engine::LogEntry>(&operation);
    if (entry != nullptr && entry->lsn == lsn) return {last, entry->record.TryFlat()->data()};
  }
  return {last, nullptr};
}

TEST_F(DurableTest, ARecordIsEncodedOnceForReplicasAndDisk) {
  Start({1});
  EXPECT_FALSE(a.host.Take({.update = log::MakeUpdate(kA, 1, std::vector<std::pair<uint64_t, float>>(100), 0),
                            .job = kJob,
                            .table = log::SumTable(kJob),
                            .acks = acks},
                           Epoch(1), clock.now));
  a.host.Flush();
  Deliver();
  const Lsn lsn = a.host.primary()->segment().version();
  ASSERT_EQ(b.host.follower()->position().lsn, lsn);
  const auto [sent, written] = MemoryOf(a.host.primary()->replicas().tail(), a.batch, lsn);
  EXPECT_EQ(sent, written);
  const auto [received, written_there] = MemoryOf(b.host.follower()->tail(), b.batch, lsn);
  EXPECT_EQ(received, written_there);
}

TEST_F(DurableTest, AMarkOfAForgottenCopyDoesNotCount) {
  Start({1});
  Push(a, 1, 1);
  Deliver();
  const auto mark = b.host.TakeMark();
  ASSERT_TRUE(mark);
  // It is left out and sent an image: batches under way to its disk belong to another life.
  Configure(2, 0, {});
  v1::ReplicateRequest::Segment image;
  image.set_segment(kSegment.v);
  image.set_epoch(2);
  image.set_transfer(1'000'000);
  *image.mutable_image() = log::ImageOf(a.host.primary()->segment());
  b.host.Follow(a.self, image, absl::Cord(), 0);
  b.host.OnDurable(*mark);
  EXPECT_EQ(b.host.disk()->durable(), Lsn());
}

TEST_F(DurableTest, AReplicaWhoseDiskHangsIsAskedOut) {
  Start({1});
  Push(a, 1, 1);
  Deliver();
  a.Sync();
  Pass(absl::Milliseconds(900));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::DROP), IsEmpty());
  Pass(absl::Milliseconds(300));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::DROP).empty());
  Configure(2, 0, {});
  EXPECT_THAT(acks->numbers, ElementsAre(1));
}

TEST_F(DurableTest, ALearnerIsAddedOnceItsDiskHasABase) {
  Start({});
  for (PartNumber n = 1; n <= 20; ++n) Push(a, n, 1);
  a.Sync();
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(300));
  EXPECT_TRUE(c.host.follower()->whole());
  EXPECT_THAT(Wishes(a, v1::ConfigWish::ADD), IsEmpty()) << "nothing of it is synced";
  PassSyncing(absl::Milliseconds(300));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
  EXPECT_TRUE(c.host.disk()->usable());
}

// A client may have been shown it: then it must outlive the loss of power.
TEST_F(DurableTest, ANewPrimaryServesOnceWhatItsEpochBeganWithIsOnDisk) {
  Start({1});
  Push(a, 1, 3);
  Deliver();
  CutOff(a);
  Pass(absl::Milliseconds(600));
  ASSERT_TRUE(Fence(b, 2, true));
  ConfigureAt(b, 2, 1, {});
  const auto answers = Pull(b);
  EXPECT_THAT(answers->certificates, IsEmpty());
  b.Sync();
  ASSERT_THAT(answers->certificates, SizeIs(1));
  EXPECT_EQ(value, 3);
}

TEST_F(DurableTest, PartsAreRefusedOnceMuchWaitsForADiskThatDoesNotWork) {
  Start({});
  a.disk.pending = kDiskBehind + 1;
  EXPECT_FALSE(Push(a, 1, 1)) << "it works: clients are slowed down, and nothing is refused";
  a.disk.standing = {.state = Disk::Health::State::kFull};
  const auto refusal = Push(a, 2, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_THAT(refusal->message(), HasSubstr("waiting for its disk"));
  a.disk.pending = 0;
  EXPECT_FALSE(Push(a, 2, 1));
}

// A configuration may name it by now: then acknowledged parts must be on its disk too.
TEST_F(DurableTest, AnAwaitedLearnersDiskIsNotGivenUp) {
  Start({});
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  PassSyncing(absl::Milliseconds(300));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty()) << "nobody has answered the wish";
  Push(a, 1, 1);
  a.Sync();
  Deliver();
  c.Sync();
  Deliver();
  ASSERT_THAT(acks->numbers, ElementsAre(1));
  c.disk.pending = kDiskLostAtWork + 1;
  for (PartNumber n = 2; n <= 50; ++n) Push(a, n, 1);
  a.Sync();
  Deliver();
  EXPECT_TRUE(c.host.disk()->ready());
  EXPECT_EQ(c.host.disk()->durable(), Lsn(a.host.primary()->segment().version().v - 49));
  EXPECT_THAT(acks->numbers, ElementsAre(1)) << "it may have been added";
  Pass(absl::Seconds(2));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::KEEP).empty()) << "it holds the others up";
  Configure(2, 0, {});
  a.Sync();
  EXPECT_THAT(acks->numbers, SizeIs(50));
}

TEST_F(DurableTest, ALearnerIsAddedOnceItKnowsThatItIsAwaited) {
  Start({});
  net.held_up = [](const auto& head) { return head.awaited(); };
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  PassSyncing(absl::Milliseconds(300));
  ASSERT_FALSE(net.under_way.empty());
  EXPECT_THAT(Wishes(a, v1::ConfigWish::ADD), IsEmpty());
  net.held_up = nullptr;
  std::ranges::move(std::exchange(net.under_way, {}), std::back_inserter(net.messages));
  PassSyncing(absl::Milliseconds(300));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

TEST_F(DurableTest, AReplicasDiskIsNeverGivenUp) {
  Start({1});
  b.disk.pending = kDiskLostAtWork + 1;
  Push(a, 1, 1);
  Deliver();
  EXPECT_TRUE(b.host.disk()->ready());
  EXPECT_GT(b.batch.bytes(), 0u);
}

// -- acknowledged from memory, and written behind --

class WrittenBehindTest : public DurableTest {
 protected:
  WrittenBehindTest() : DurableTest(Disks::kWrittenBehind) {}
  // Whether the coordinator is told that the record is there for good.
  bool Change(v1::Change::ActionCase action, SessionId session = kA) {
    const v1::Change change = log::ChangeOf(action, session, kJob);
    std::optional<Clock> behind;
    why.clear();
    const bool told = a.host.primary()->Change(change, {}, &why, &behind);
    a.host.Flush();
    Deliver();
    return told;
  }
  std::string why;
};

TEST_F(WrittenBehindTest, AnEndOfASessionIsToldOnceEveryDiskHasIt) {
  Start({1});
  Change(v1::Change::kJoin);
  PassSyncing(absl::Milliseconds(20));
  EXPECT_FALSE(Change(v1::Change::kEvict));
  EXPECT_FALSE(Change(v1::Change::kEvict)) << "it is in the memory of both";
  EXPECT_THAT(why, AllOf(HasSubstr("its own disk"), HasSubstr("the disk of shard 1")));
  a.Sync();
  EXPECT_FALSE(Change(v1::Change::kEvict));
  EXPECT_THAT(why, AllOf(Not(HasSubstr("its own disk")), HasSubstr("the disk of shard 1")));
  b.Sync();
  EXPECT_FALSE(Change(v1::Change::kEvict)) << "the primary has not heard";
  EXPECT_TRUE(Change(v1::Change::kEvict)) << why;
}

TEST_F(WrittenBehindTest, PartsWaitForNoDiskAndAskForNoSync) {
  Start({1});
  Push(a, 1, 1);
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  EXPECT_FALSE(a.host.TakeMark());
  EXPECT_FALSE(b.host.TakeMark());
  Change(v1::Change::kOpen, SessionId(8));
  EXPECT_TRUE(a.host.TakeMark()) << "a sync at once";
  EXPECT_FALSE(a.host.TakeMark()) << "one";
  EXPECT_TRUE(b.host.TakeMark());
}

TEST_F(WrittenBehindTest, RecordsOfAnEarlierPrimaryAreToldOnceTheEpochIsOnDisk) {
  Start({1});
  Change(v1::Change::kOpen, SessionId(8));
  CutOff(a);
  Pass(absl::Milliseconds(600));
  ASSERT_TRUE(Fence(b, 2, true));
  ConfigureAt(b, 2, 1, {});
  const v1::Change change = log::ChangeOf(v1::Change::kOpen, SessionId(8), kJob);
  std::optional<Clock> behind;
  EXPECT_FALSE(b.host.primary()->Change(change, {}, &why, &behind));
  b.Sync();
  EXPECT_TRUE(b.host.primary()->Change(change, {}, &why, &behind)) << why;
}

TEST_F(WrittenBehindTest, ADiskThatStallsIsNotWaitedForWhereAnotherWorks) {
  Start({1});
  Change(v1::Change::kEvict);
  a.Sync();
  b.disk.pending = kDiskBehind;
  Pass(absl::Seconds(9));
  EXPECT_FALSE(Change(v1::Change::kEvict));
  Pass(absl::Seconds(2));
  EXPECT_TRUE(Change(v1::Change::kEvict)) << why;
}

TEST_F(WrittenBehindTest, WithoutAWorkingDiskTheCoordinatorIsNotTold) {
  Start({});
  Change(v1::Change::kEvict);
  Pass(absl::Seconds(30));
  EXPECT_EQ(a.host.disk()->state(), v1::ReplicateReply::DISK_STALLS);
  EXPECT_FALSE(Change(v1::Change::kEvict));
  EXPECT_THAT(why, HasSubstr("its own disk"));
  a.Sync();
  EXPECT_TRUE(Change(v1::Change::kEvict)) << why;
}

TEST_F(WrittenBehindTest, ALearnerIsAddedOnceItsDiskHasABase) {
  Start({});
  for (PartNumber n = 1; n <= 20; ++n) Push(a, n, 1);
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Seconds(1));
  EXPECT_TRUE(c.host.follower()->whole());
  EXPECT_THAT(Wishes(a, v1::ConfigWish::ADD), IsEmpty()) << "nothing of it is synced";
  Push(a, 21, 1);
  EXPECT_THAT(acks->numbers, SizeIs(21)) << "nobody waits for it";
  c.Sync();
  Deliver();
  Pass(absl::Milliseconds(50));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

// A copy in memory is better than none.
TEST_F(WrittenBehindTest, ALearnerWithAStalledDiskIsStillAdded) {
  Start({});
  c.disk.pending = kDiskBehind;
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Seconds(9));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::ADD), IsEmpty());
  Pass(absl::Seconds(2));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

// -- data that was given up for lost --

TEST_F(WrittenBehindTest, ASegmentThatWasGivenUpForLostBeginsEmpty) {
  Start({1});
  Push(a, 1, 5);
  Deliver();
  ring::SegmentConfig empty{.epoch = Epoch(2), .primary = b.self, .replicas = {}, .emptied_in = Epoch(2)};
  b.host.OnConfig(empty, MapVersion(2), b.self, 0);
  ASSERT_EQ(b.host.role(), SegmentHost::Role::kPrimary);
  EXPECT_EQ(b.host.primary()->segment().version(), Lsn(1)) << "the record of its epoch";
  EXPECT_EQ(b.host.primary()->segment().FindSession(kA), nullptr);
  b.Sync();
  EXPECT_TRUE(b.host.disk()->ready());
  const auto at_once = Push(b, 2, 1);
  ASSERT_TRUE(at_once);
  EXPECT_EQ(at_once->reason(), v1::Refusal::DATA_LOSS) << "before the coordinator's word is here";
  v1::Change evict = log::ChangeOf(v1::Change::kEvict, kA, kJob);
  evict.mutable_evict()->set_reason("gone");
  evict.mutable_evict()->set_data_lost(true);
  std::optional<Clock> behind;
  b.host.primary()->Change(evict, {}, &why, &behind);
  const auto refusal = Push(b, 2, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::DATA_LOSS);
  EXPECT_THAT(Pull(b)->refusals.at(0).reason(), v1::Refusal::DATA_LOSS);
  empty = {.epoch = Epoch(3), .primary = b.self, .replicas = {c.self}, .emptied_in = Epoch(2)};
  b.host.OnConfig(empty, MapVersion(3), b.self, 0);
  EXPECT_EQ(b.host.primary()->segment().version(), Lsn(3)) << "it does so once";
}

// -- what a restarted shard has --

class RestoredTest : public DurableTest {
 protected:
  // A start that found what node a holds on its disk, which was there before as member `was`.
  std::unique_ptr<Node> StartAgain(const ring::SegmentConfig& config) {
    auto node = std::make_unique<Node>(net, clock, 0, Disks::kAcksDurable);
    const log::Segment& had = a.host.primary()->segment();
    auto state = log::SegmentFromImage(log::ImageOf(had), kSegment, 0);
    log::PageWalk walk(had);
    std::vector<v1::PageImage> pages;
    while (walk.Next(had, 1 << 20, &pages)) {
    }
    for (const auto& page : pages) EXPECT_TRUE(log::InstallPage(*state, page).ok());
    SegmentDisk::Found found;
    found.anything = found.usable = true;
    found.held = had.version();
    node->host.Restore(*std::move(state), std::move(found));
    node->host.OnConfig(config, MapVersion(config.epoch.v), again, 0);
    return node;
  }
  v1::FenceReply::Segment Ask(Node& node, uint64_t epoch) {
    v1::FenceRequest::Segment request;
    request.set_epoch(epoch);
    request.set_restored(true);
    return node.host.Fence(request);
  }
  const ring::Member again{.shard = ShardId(0), .incarnation = Incarnation(99)};
};

TEST_F(RestoredTest, ARestoredCopyWaitsToBeAskedAndGoesOn) {
  Start({});
  Push(a, 1, 5);
  a.Sync();
  ring::SegmentConfig config{.epoch = Epoch(1), .primary = a.self, .replicas = {}};
  const auto node = StartAgain(config);
  EXPECT_EQ(node->budget->images, 1) << "its history begins with what the disk had";
  const auto refusal = Push(*node, 2, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_THAT(refusal->message(), HasSubstr("recovered from disk"));
  for (int i = 0; i < 2000; ++i) {  // it is kept even if nobody speaks to it
    clock.now += absl::Milliseconds(10);
    node->host.OnTime(clock.now);
  }
  const auto answer = Ask(*node, 2);
  EXPECT_TRUE(answer.fenced());
  EXPECT_EQ(answer.lsn(), a.host.primary()->segment().version().v);
  EXPECT_EQ(answer.lsn_epoch(), 1u);
  EXPECT_TRUE(Ask(*node, 2).fenced()) << "again: the same answer";
  EXPECT_FALSE(Ask(*node, 1).fenced());
  config = {.epoch = Epoch(2), .primary = again, .replicas = {}};
  node->host.OnConfig(config, MapVersion(2), again, 0);
  ASSERT_EQ(node->host.role(), SegmentHost::Role::kPrimary);
  EXPECT_FALSE(Push(*node, 1, 5)) << "it came before";
  EXPECT_FALSE(Push(*node, 2, 2));
  node->Sync();
  const auto answers = Pull(*node);
  ASSERT_THAT(answers->certificates, SizeIs(1));
  EXPECT_EQ(value, 7);
  EXPECT_FALSE(Ask(*node, 3).fenced()) << "it has a role";
}

// No new record may come for long: waiters must not have to wait for one.
TEST_F(RestoredTest, ALearnerSaysThatItsDiskHasItAll) {
  Start({});
  Push(a, 1, 5);
  a.Sync();
  const auto node = StartAgain({.epoch = Epoch(2), .primary = b.self, .replicas = {}});
  v1::ReplicateRequest::Segment probe;
  probe.set_segment(kSegment.v);
  probe.set_epoch(2);
  const v1::ReplicateReply::Ack ack =
      node->host.Follow(b.self, probe, absl::Cord(), 0, [](const auto&) {}).value();
  EXPECT_EQ(ack.lsn(), a.host.primary()->segment().version().v);
  EXPECT_EQ(ack.durable(), ack.lsn());
}

TEST_F(RestoredTest, AnEmptyDiskIsReported) {
  Start({});
  auto node = std::make_unique<Node>(net, clock, 0, Disks::kAcksDurable);
  node->host.OnConfig({.epoch = Epoch(1), .primary = a.self, .replicas = {}}, MapVersion(1), again, 0);
  const auto answer = Ask(*node, 2);
  EXPECT_TRUE(answer.fenced());
  EXPECT_EQ(answer.lsn(), 0u);
}

// Its first base was being written when it was killed.
TEST_F(RestoredTest, AnUnusedIncompleteCopyIsForgotten) {
  Start({});
  auto node = std::make_unique<Node>(net, clock, 0, Disks::kAcksDurable);
  SegmentDisk::Found half;
  half.anything = true;
  node->host.Restore(std::nullopt, std::move(half));
  node->host.OnConfig({.epoch = Epoch(3), .primary = b.self, .replicas = {}}, MapVersion(3), again, 0);
  node->host.OnTime(clock.now);
  ASSERT_THAT(node->batch.operations(), SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<engine::Batch::Reset>(node->batch.operations().front()));
  node->host.OnTime(clock.now);
  EXPECT_THAT(node->batch.operations(), SizeIs(1)) << "once";
}

TEST_F(RestoredTest, ARestoredCopyIsDroppedWhereOthersGoOn) {
  Start({});
  const auto node = StartAgain({.epoch = Epoch(3), .primary = b.self, .replicas = {}});
  EXPECT_NE(node->host.follower(), nullptr);
  for (int i = 0; i < 1100; ++i) {
    clock.now += absl::Milliseconds(10);
    node->host.OnTime(clock.now);
  }
  EXPECT_EQ(node->host.follower(), nullptr);
  EXPECT_FALSE(node->host.disk()->usable());
}

}  // namespace
}  // namespace paceline::shard
