// What a primary may do at the beginning of its tenure, and at its end.
#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TenureTest : public ReplicationTest {
 protected:
  log::Primary& primary() { return *a.host.primary(); }
  bool Change(v1::Change::ActionCase action) {
    const v1::Change change = log::ChangeOf(action, kA, kJob);
    std::optional<Clock> behind;
    why.clear();
    const bool done = primary().Change(change, {}, &why, &behind);
    a.host.Flush();
    return done;
  }
  void JoinA() {
    Change(v1::Change::kJoin);
    Deliver();
    ASSERT_TRUE(Change(v1::Change::kJoin));
  }
  std::string why;
};

// -- the beginning --

TEST_F(TenureTest, ReadsWaitUntilTheReplicaHoldsTheRecordOfTheEpoch) {
  ASSERT_EQ(primary().replicas().uncommitted(), 0u);
  Configure(2, 1, {0});
  const auto answers = Pull(b);
  EXPECT_THAT(answers->certificates, IsEmpty());
  Deliver();
  ASSERT_THAT(answers->certificates, SizeIs(1)) << "the record was sent at once";
  EXPECT_EQ(answers->certificates[0].epoch, Epoch(2));
}

TEST_F(TenureTest, AnAcknowledgementIsNotedAndWakesItsStream) {
  Push(a, 1, 1);
  EXPECT_EQ(a.budget->answers, 0);
  EXPECT_EQ(acks->wakes, 0);
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  EXPECT_EQ(a.budget->answers, 1);
  EXPECT_EQ(acks->wakes, 1);
}

// -- the end --

TEST_F(TenureTest, APlaceIsGivenOnlyToAReplicaWhoseLinkStands) {
  net.cut.emplace(a.self, b.self);
  Pass(absl::Milliseconds(20));
  ASSERT_TRUE(primary().MayAnswer());
  ASSERT_EQ(primary().replicas().uncommitted(), 0u);
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  Pass(absl::Milliseconds(50));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), IsEmpty());
  net.cut.clear();
  Pass(absl::Milliseconds(50));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), SizeIs(1));
}

TEST_F(TenureTest, APlaceThatMayBeLostIsNotGiven) {
  net.stalled.insert(b.self);
  Pass(absl::Milliseconds(500));
  ASSERT_FALSE(primary().MayAnswer());
  ASSERT_TRUE(primary().replicas().Holds(b.self));
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  Pass(absl::Milliseconds(20));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), IsEmpty());
  net.stalled.clear();
  Pass(absl::Milliseconds(20));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), SizeIs(1));
}

TEST_F(TenureTest, NothingIsWrittenDuringAHandOverAndTicksCountAfterIt) {
  for (const bool given_up : {true, false}) {
    SCOPED_TRACE(given_up);
    if (given_up) JoinA();
    const Clock next = primary().segment().MinClockOf(kJob) + 3;
    if (given_up) {
      net.stalled.insert(b.self);  // it does not catch up
      Push(a, 1, 1);
    }
    ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
    const auto refusal = Push(a, 2, 1);
    ASSERT_TRUE(refusal);
    EXPECT_THAT(refusal->message(), HasSubstr("is being handed over"));
    EXPECT_EQ(refusal->retry_after_ms(), 5u) << "about as long as it takes";
    EXPECT_FALSE(Change(v1::Change::kOpen));
    EXPECT_THAT(why, HasSubstr("is being handed over"));
    const Lsn version = primary().segment().version();
    primary().Tick(kA, next, {{1, 0}});
    EXPECT_EQ(primary().segment().version(), version);
    if (given_up) {
      Pass(log::HandOver::kMax + absl::Milliseconds(20));
      EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), IsEmpty());
      EXPECT_EQ(primary().segment().MinClockOf(kJob), next);
      EXPECT_FALSE(primary().handing_over()) << "it goes on";
      net.stalled.clear();
      Pass(absl::Milliseconds(50));
    } else {
      Pass(absl::Milliseconds(50));
      EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), SizeIs(1));
      Configure(2, 0, {1});  // another wish came first
      EXPECT_EQ(primary().segment().MinClockOf(kJob), next);
    }
  }
}

}  // namespace
}  // namespace paceline::shard
