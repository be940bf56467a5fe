// Primaries that cannot serve as they should, and give their place up by themselves.
#include "services/shard/test_util/durable.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CutOffTest : public ReplicationTest {};
class FailingDiskTest : public DurableTest {};

// -- a primary that reaches no coordinator --

TEST_F(CutOffTest, APrimaryWithoutACoordinatorHandsOverToAReplicaThatReachesIt) {
  a.port->no_coordinator = absl::Milliseconds(1900);
  Pass(absl::Seconds(1));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), IsEmpty());
  a.port->no_coordinator = absl::Milliseconds(2500);
  b.port->no_coordinator = absl::Milliseconds(300);
  Pass(absl::Milliseconds(300));
  const auto swaps = Wishes(a, v1::ConfigWish::SWAP);
  ASSERT_THAT(swaps, SizeIs(1));
  EXPECT_EQ(swaps[0].members(0).shard(), b.self.shard.v);
  EXPECT_FALSE(Fence(b, 2, /*only_if_silent=*/true)) << "its beacons arrive";
  Pass(absl::Seconds(1));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::KEEP).empty());
  Configure(2, 1, {0});
  EXPECT_FALSE(Push(b, 1, 1));
  Pass(absl::Milliseconds(50));
  EXPECT_THAT(acks->numbers, ElementsAre(1));
}

TEST_F(CutOffTest, WithoutAnyCoordinatorNoPrimaryHandsOver) {
  // The replica's last answer is nearly two beats younger than the primary's.
  for (absl::Duration gone; gone < absl::Seconds(20); gone += absl::Milliseconds(100)) {
    a.port->no_coordinator = gone + absl::Milliseconds(1900);
    b.port->no_coordinator = gone;
    Pass(absl::Milliseconds(100));
  }
  EXPECT_THAT(net.wishes, IsEmpty());
  EXPECT_TRUE(a.host.primary()->MayAnswer());
}

TEST_F(CutOffTest, ACarriedAnswerEndsATenureOnlyAsWished) {
  const ring::SegmentConfig swapped{.epoch = Epoch(2), .primary = b.self, .replicas = {a.self}};
  a.host.OnCarried(swapped, MapVersion(2), a.self, 0);
  EXPECT_NE(a.host.primary(), nullptr) << "it has asked for nothing";
  a.port->no_coordinator = absl::Seconds(3);
  Pass(absl::Milliseconds(300));
  ASSERT_TRUE(a.host.primary()->handing_over());
  ring::SegmentConfig other = swapped;
  other.replicas = {a.self, c.self};
  a.host.OnCarried(other, MapVersion(2), a.self, 0);
  EXPECT_NE(a.host.primary(), nullptr) << "somebody is named who is no member";
  a.host.OnCarried(swapped, MapVersion(2), a.self, 0);
  EXPECT_EQ(a.host.primary(), nullptr);
  EXPECT_EQ(a.host.role(), SegmentHost::Role::kReplica);
}

// -- a disk that fails --

const Disk::Health kFull{.state = Disk::Health::State::kFull, .why = "no space", .lasts = absl::Seconds(1)};

TEST_F(FailingDiskTest, APrimaryWhoseDiskFailsHandsOverAndAcknowledgesNothing) {
  Start({1});
  Push(a, 1, 1);
  PassSyncing(absl::Milliseconds(20));
  ASSERT_THAT(acks->numbers, ElementsAre(1));
  Push(a, 2, 2);
  Deliver();
  a.disk.standing = kFull;
  Pass(absl::Milliseconds(100));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), IsEmpty())
      << "the replica's disk does not have the last record";
  const auto refusal = Push(a, 3, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_THAT(refusal->message(), HasSubstr("read-only"));
  b.Sync();
  Deliver();
  Pass(absl::Milliseconds(50));
  const auto swaps = Wishes(a, v1::ConfigWish::SWAP);
  ASSERT_THAT(swaps, SizeIs(1));
  EXPECT_EQ(swaps[0].members(0).shard(), b.self.shard.v);
  EXPECT_THAT(acks->numbers, ElementsAre(1)) << "what is not on its own disk it never says";
  EXPECT_FALSE(a.host.primary()->MayAnswer());

  Configure(2, 1, {0});
  EXPECT_FALSE(Push(b, 2, 2)) << "it came before";
  for (int i = 0; i < 10; ++i) {
    Pass(absl::Milliseconds(20));
    b.Sync();
  }
  EXPECT_THAT(acks->numbers, ElementsAre(1)) << "the member whose disk fails is still waited for";
  const auto drops = Wishes(b, v1::ConfigWish::DROP);
  ASSERT_FALSE(drops.empty()) << "without waiting for a second";
  EXPECT_EQ(drops[0].members(0).shard(), a.self.shard.v);
  Configure(3, 1, {});
  b.Sync();
  Pass(absl::Milliseconds(20));
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2));
}

TEST_F(FailingDiskTest, AHandOverForADiskThatFailsGoesToOneWhoseDiskWorks) {
  Start({1, 2});
  a.disk.standing = b.disk.standing = kFull;
  Pass(absl::Milliseconds(100));
  const auto swaps = Wishes(a, v1::ConfigWish::SWAP);
  ASSERT_THAT(swaps, SizeIs(1));
  EXPECT_EQ(swaps[0].members(0).shard(), c.self.shard.v);
}

TEST_F(FailingDiskTest, WithoutAnotherMemberADiskThatFailsMakesItReadOnly) {
  Start({});
  Push(a, 1, 3);
  a.Sync();
  a.disk.standing = kFull;
  Pass(absl::Seconds(3));
  ASSERT_TRUE(Push(a, 2, 1));
  const auto answers = Pull(a);
  EXPECT_THAT(answers->certificates, SizeIs(1)) << "what it has is served";
  EXPECT_EQ(value, 3);
  EXPECT_THAT(a.host.primary()->WhyNotServing(), HasSubstr("read-only"));
  a.disk.standing = {};
  PassSyncing(absl::Milliseconds(50));
  EXPECT_FALSE(Push(a, 2, 1));
  EXPECT_EQ(a.host.primary()->WhyNotServing(), "");
}

TEST_F(FailingDiskTest, WhenAllDisksFailNoMemberIsAskedOut) {
  Start({1});
  a.disk.standing = b.disk.standing = kFull;
  Push(a, 1, 1);
  Pass(absl::Seconds(5));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::DROP), IsEmpty());
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), IsEmpty());
}

}  // namespace
}  // namespace paceline::shard
