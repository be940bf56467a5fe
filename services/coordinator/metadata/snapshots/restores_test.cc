// Snapshots that are loaded: into a new job, in place of one, and asked for again.
#include "services/coordinator/metadata/snapshots/test_snapshots.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SnapshotsTest, ALoadIsGivenUpWithItsJob) {
  const std::string name = Done(Create())->snapshot().name();
  cluster_.shards().at("shard-0").withheld.insert(0);
  cluster_.shards().at("shard-1").withheld.insert(0);
  const auto restoring = Restore(name, "again");
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(restoring.answered());
  v1::DeleteJobRequest request;
  request.set_job("again");
  Pending<v1::DeleteJobReply> deleted;
  cluster_.core().DeleteJob(request, absl::InfiniteFuture(), deleted.done());
  cluster_.Await(deleted);
  EXPECT_THAT(deleted.status(), IsOk());
  EXPECT_THAT(Done(restoring).status(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("given up")));
  cluster_.shards().at("shard-0").withheld.clear();
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Run(absl::Seconds(2));
  EXPECT_NE(cluster_.Opened("again"), 0u);
  EXPECT_THAT(Delete(name), IsOk());
}

TEST_F(SnapshotsTest, ARestoredJobAppearsOnceAllItsRowsAreLoaded) {
  cluster_.shards().AdvanceMinClock(9);
  const std::string name = Done(Create())->snapshot().name();
  EXPECT_THAT(Done(Restore(name, "")).status(), StatusIs(StatusCode::kAlreadyExists, HasSubstr("job 'ctr'")));
  cluster_.shards().at("shard-0").withheld.insert(0);
  cluster_.shards().at("shard-1").withheld.insert(0);
  const auto restoring = Restore(name, "again");
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(restoring.answered());
  EXPECT_THAT(Done(cluster_.OpenSession("again", 77)).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("is being loaded")));
  EXPECT_THAT(Delete(name), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("is being loaded")));
  ASSERT_THAT(cluster_.Restart(), IsOk());  // the intent is taken up
  const auto asked_again = Restore(name, "again");
  cluster_.shards().at("shard-0").withheld.clear();
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(asked_again);
  ASSERT_THAT(asked_again.status(), IsOk());
  EXPECT_EQ(asked_again->clock(), 9u);
  EXPECT_THAT(Jobs(), ElementsAre("ctr", "again"));
  const uint64_t session = cluster_.Opened("again");
  const auto opened = cluster_.OpenTable(session, "weights", SparseSchema());
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(opened->table().job(), asked_again->job());
  const auto joined = Done(cluster_.JoinJob(session));
  ASSERT_THAT(joined.status(), IsOk());
  EXPECT_EQ(joined->start_clock(), 9u);
}

TEST_F(SnapshotsTest, AJobIsReplacedByOneCommit) {
  const std::string name = Done(Create())->snapshot().name();
  EXPECT_THAT(Done(Restore(name, "ctr", /*replace=*/true)).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("open session")));
  CloseAll();
  const auto restored = Done(Restore(name, "ctr", /*replace=*/true));
  ASSERT_THAT(restored.status(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(Jobs(), ElementsAre("ctr"));
  EXPECT_EQ(cluster_.core().Status().jobs(0).job(), restored->job());
  EXPECT_EQ(cluster_.core().Status().tables_size(), 1);
}

// The first answer is lost. What the request made must not be replaced by its repetition, which needs no file
// either.
TEST_F(SnapshotsTest, ARepeatedRestoreGetsTheFirstAnswer) {
  cluster_.shards().AdvanceMinClock(9);
  const std::string name = Done(Create())->snapshot().name();
  CloseAll();
  const auto restored = Done(Restore(name, "", /*replace=*/true, /*replaces=*/0, /*nonce=*/5));
  ASSERT_THAT(restored.status(), IsOk());
  cluster_.Run(absl::Seconds(2));
  ASSERT_THAT(Delete(name), IsOk());
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const auto again = Done(Restore(name, "", /*replace=*/true, /*replaces=*/0, /*nonce=*/5));
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_EQ(again->job(), restored->job());
  EXPECT_EQ(again->clock(), 9u);
  EXPECT_THAT(Jobs(), ElementsAre("ctr"));
  EXPECT_EQ(cluster_.core().Status().jobs(0).job(), restored->job());
}

TEST_F(SnapshotsTest, ARestoreThatIsRepeatedWhileItLoadsIsTheSame) {
  const std::string name = Done(Create())->snapshot().name();
  cluster_.shards().at("shard-0").withheld.insert(0);
  cluster_.shards().at("shard-1").withheld.insert(0);
  (void)Restore(name, "again", /*replace=*/false, /*replaces=*/0, /*nonce=*/5);
  const auto at_once = Restore(name, "again", /*replace=*/false, /*replaces=*/0, /*nonce=*/5);
  const auto other = Restore(name, "again", /*replace=*/false, /*replaces=*/0, /*nonce=*/6);
  cluster_.Run(absl::Seconds(1));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const auto later = Restore(name, "again", /*replace=*/false, /*replaces=*/0, /*nonce=*/5);
  cluster_.shards().at("shard-0").withheld.clear();
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(later);
  ASSERT_THAT(later.status(), IsOk());
  for (const uint64_t nonce : {5, 6}) {
    const auto once_more = Done(Restore(name, "again", /*replace=*/false, /*replaces=*/0, nonce));
    ASSERT_THAT(once_more.status(), IsOk()) << nonce;
    EXPECT_EQ(once_more->job(), later->job());
  }
  EXPECT_THAT(Done(Restore(name, "again", /*replace=*/false, /*replaces=*/0, /*nonce=*/7)).status(),
              StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(SnapshotsTest, OnlyTheJobThatIsMeantIsReplaced) {
  const std::string name = Done(Create())->snapshot().name();
  const uint32_t meant = cluster_.core().Status().jobs(0).job();
  ASSERT_THAT(Done(cluster_.DeleteJob("ctr", /*force=*/true)).status(), IsOk());
  cluster_.kept_alive.clear();
  Done(cluster_.CloseSession(cluster_.Opened("ctr")));
  EXPECT_THAT(Done(Restore(name, "ctr", /*replace=*/true, meant)).status(),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("not the one")));
  ASSERT_THAT(Done(Restore(name, "ctr", /*replace=*/true, meant + 1)).status(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(Jobs(), ElementsAre("ctr"));
}

// The job that the load was to replace has the name then.
TEST_F(SnapshotsTest, ARepeatedDeletionOfALoadLeavesTheJobThatItWasToReplace) {
  const std::string name = Done(Create())->snapshot().name();
  CloseAll();
  cluster_.shards().at("shard-0").withheld.insert(0);
  cluster_.shards().at("shard-1").withheld.insert(0);
  const auto restoring = Restore(name, "ctr", /*replace=*/true, /*replaces=*/0, /*nonce=*/5);
  cluster_.Run(absl::Seconds(1));
  v1::DeleteJobRequest request;
  request.set_job("ctr");
  request.set_nonce(6);
  EXPECT_THAT(Done(cluster_.DeleteJob(request)).status(), IsOk());
  EXPECT_THAT(Done(restoring).status(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("given up")));
  cluster_.shards().at("shard-0").withheld.clear();
  cluster_.shards().at("shard-1").withheld.clear();
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(Done(cluster_.DeleteJob(request)).status(), IsOk());
  EXPECT_THAT(Done(Restore(name, "ctr", /*replace=*/true, /*replaces=*/0, /*nonce=*/5)).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("restore it anew")));
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(Jobs(), ElementsAre("ctr"));
  EXPECT_EQ(cluster_.core().Status().jobs(0).job(), 1u);
}

TEST_F(SnapshotsTest, ALoadThatFailsLeavesNothingOfTheJob) {
  const std::string name = Done(Create())->snapshot().name();
  cluster_.shards().Segment(4).cannot_snapshot = "segment-4: a wrong checksum";
  EXPECT_THAT(Done(Restore(name, "again")).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("a wrong checksum")));
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(Jobs(), ElementsAre("ctr"));
  EXPECT_EQ(cluster_.core().Status().tables_size(), 1);
  cluster_.shards().Segment(4).cannot_snapshot.clear();
  EXPECT_THAT(Done(Restore(name, "again")).status(), IsOk());
}

}  // namespace
}  // namespace paceline::coordinator
