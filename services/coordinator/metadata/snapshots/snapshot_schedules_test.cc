// Schedules of snapshots: when they take one, which ones they keep, and restarts.
#include "services/coordinator/metadata/snapshots/snapshot_schedules.h"

#include <algorithm>

#include "libs/base/test_util/status_matchers.h"
#include "libs/snapshot/manifest.h"
#include "services/coordinator/metadata/snapshots/test_snapshot_files.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class SnapshotSchedulesTest : public ::testing::Test {
 protected:
  SnapshotSchedulesTest() {
    cluster_.JoinShards();
    WriteSnapshotsTo(files_, cluster_.shards());
    session_ = cluster_.Opened("ctr");
    cluster_.kept_alive.insert(session_);
    EXPECT_THAT(cluster_.OpenTable(session_, "weights", SparseSchema()), IsOk());
  }

  absl::Status Set(uint32_t every_s, uint64_t every_clocks, uint32_t keep, const std::string& job = "ctr") {
    v1::ScheduleSnapshotsRequest request;
    request.set_job(job);
    request.mutable_schedule()->set_every_s(every_s);
    request.mutable_schedule()->set_every_clocks(every_clocks);
    request.mutable_schedule()->set_keep(keep);
    return cluster_.core().ScheduleSnapshots(request).status();
  }
  absl::Status End() {
    v1::ScheduleSnapshotsRequest request;
    request.set_job("ctr");
    return cluster_.core().ScheduleSnapshots(request).status();
  }
  // As if somebody worked all the time, unless told otherwise.
  void Pass(int64_t seconds) {
    for (; seconds > 0; --seconds) {
      files_.unix_s += 1;
      if (!idle_) cluster_.shards().AdvanceMinClock(++clock_);
      cluster_.Run(absl::Seconds(1));
    }
  }
  // Complete ones, the oldest first.
  std::vector<std::string> Snapshots() {
    std::vector<std::string> names;
    const auto listing = snapshot::ListSnapshots(files_.files);
    EXPECT_THAT(listing, IsOk());
    for (const auto& manifest : listing->snapshots) names.push_back(manifest.name());
    std::ranges::sort(names, {}, [](const std::string& name) { return std::pair(name.size(), name); });
    return names;
  }
  v1::SnapshotScheduleInfo Info() {
    Pending<v1::ListSnapshotsReply> pending;
    cluster_.core().ListSnapshots({}, absl::InfiniteFuture(), pending.done());
    cluster_.Await(pending);
    EXPECT_THAT(pending.status(), IsOk());
    return pending->schedules_size() == 1 ? pending->schedules(0) : v1::SnapshotScheduleInfo();
  }

  FilesAtOnce files_;
  TestCluster cluster_{2, {.ring_bits = 3, .snapshots = &files_}};
  uint64_t session_ = 0;
  bool idle_ = false;
  uint64_t clock_ = 0;
};

TEST_F(SnapshotSchedulesTest, TakesSnapshotsByTimeAndKeepsTheLast) {
  ASSERT_THAT(Set(60, 0, 2), IsOk());
  Pass(58);
  EXPECT_THAT(Snapshots(), IsEmpty());
  Pass(4);
  EXPECT_THAT(Snapshots(), SizeIs(1));
  const std::string first = Snapshots()[0];
  EXPECT_THAT(Info().snapshots(), ElementsAre(first));
  EXPECT_NEAR(Info().last_unix_s(), files_.unix_s, 4);
  Pass(50);
  EXPECT_THAT(Snapshots(), SizeIs(1));
  Pass(200);
  EXPECT_THAT(Snapshots(), SizeIs(2));
  EXPECT_THAT(Snapshots(), Not(::testing::Contains(first)));
  EXPECT_THAT(Info().snapshots(), ElementsAre(Snapshots()[0], Snapshots()[1]));
}

TEST_F(SnapshotSchedulesTest, SnapshotsFromBeforeALossStay) {
  ASSERT_THAT(Set(60, 0, 1), IsOk());
  Pass(62);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  const std::string whole = Snapshots()[0];
  Pass(40);
  cluster_.shards().at("shard-0").up = false;
  cluster_.Run(absl::Seconds(4));
  ASSERT_THAT(cluster_.AcceptLosses(), IsOk());
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(Info().snapshots(), IsEmpty());
  WriteSnapshotsTo(files_, cluster_.shards());  // the new segments too
  session_ = cluster_.Opened("ctr");
  cluster_.kept_alive.insert(session_);
  Pass(200);
  EXPECT_THAT(Snapshots(), SizeIs(2)) << "one of what is left";
  EXPECT_EQ(Snapshots()[0], whole);
}

TEST_F(SnapshotSchedulesTest, AnUnchangedJobIsNotTakenTwice) {
  Pass(5);
  idle_ = true;
  ASSERT_THAT(Set(10, 0, 3), IsOk());
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(1));
  ASSERT_THAT(Set(10, 0, 2), IsOk());
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(1)) << "another schedule makes no difference";
  ASSERT_THAT(cluster_.Restart(), IsOk());
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(1)) << "nor does another coordinator";
  cluster_.shards().AdvanceMinClock(++clock_);
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(2));
}

TEST_F(SnapshotSchedulesTest, AClientsSnapshotDoesNotWaitForAScheduledOne) {
  idle_ = true;
  cluster_.kept_alive.insert(cluster_.Worker("ctr"));
  ASSERT_THAT(Set(10, 0, 1), IsOk());
  Pass(15);  // it waits for the clocks
  v1::CreateSnapshotRequest request;
  request.set_job("ctr");
  request.set_now(true);
  Pending<v1::CreateSnapshotReply> own;
  cluster_.core().CreateSnapshot(request, absl::InfiniteFuture(), own.done());
  cluster_.Await(own);
  ASSERT_THAT(own.status(), IsOk());
  EXPECT_THAT(Snapshots(), ElementsAre(own->snapshot().name()));
  EXPECT_EQ(files_.files.folders.size(), 1u) << "nothing is left of the other";
  EXPECT_EQ(cluster_.core().gauges().snapshot_schedules[0].failures, 0u);
  Pass(35);
  cluster_.shards().AdvanceMinClock(2);
  Pass(3);
  EXPECT_THAT(Snapshots(), SizeIs(2)) << "the schedule tries again";
}

TEST_F(SnapshotSchedulesTest, RatesThatLieFarAheadAreNotWaitedFor) {
  idle_ = true;
  v1::TableSchema schema = SparseSchema();
  schema.mutable_rule()->mutable_sgd()->set_learning_rate(1);
  const auto table = cluster_.OpenTable(session_, "rates", schema);
  ASSERT_THAT(table, IsOk());
  cluster_.kept_alive.insert(cluster_.Worker("ctr"));
  v1::ChangeRuleRequest request;
  request.set_session(session_);
  request.set_table(table->table().id());
  request.mutable_rule()->mutable_sgd()->set_learning_rate(2);
  request.set_at_clock(1000);
  const auto changed = cluster_.ChangeRule(request);
  cluster_.Await(changed);
  ASSERT_THAT(changed.status(), IsOk());
  ASSERT_THAT(Set(10, 0, 1), IsOk());
  Pass(15);
  EXPECT_THAT(Info().last_failure(), HasSubstr("at clock 1000"));
  EXPECT_THAT(files_.files.folders, IsEmpty());
  cluster_.shards().AdvanceMinClock(990);
  Pass(32);
  cluster_.shards().AdvanceMinClock(1000);
  Pass(3);
  EXPECT_THAT(Snapshots(), SizeIs(1)) << "they are near now";
}

TEST_F(SnapshotSchedulesTest, ASnapshotThatCannotBeDeletedHoldsUpNoOther) {
  ASSERT_THAT(Set(10, 0, 2), IsOk());
  Pass(15);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  const std::string stuck = Snapshots()[0];
  files_.files.stuck.insert(stuck);
  Pass(200);
  EXPECT_THAT(Info().snapshots(), SizeIs(3)) << "the stuck one, and the last two";
  EXPECT_EQ(Info().snapshots(0), stuck);
  EXPECT_LE(cluster_.core().gauges().snapshot_schedules[0].age_s, 15);
  files_.files.stuck.clear();
  Pass(45);
  EXPECT_THAT(Info().snapshots(), SizeIs(2));
  EXPECT_EQ(Info().last_failure(), "");
}

TEST_F(SnapshotSchedulesTest, WithoutDeletionsNoMoreAreTaken) {
  ASSERT_THAT(Set(10, 0, 2), IsOk());
  for (int i = 0; i < 200; ++i) {
    Pass(1);
    for (const auto& [folder, files] : files_.files.folders) files_.files.stuck.insert(folder);
  }
  EXPECT_THAT(Info().snapshots(), SizeIs(5)) << "what is to be kept, and that many more, and one";
  EXPECT_THAT(Info().last_failure(),
              ::testing::AllOf(HasSubstr("could not be deleted"), HasSubstr("none is taken")));
  files_.files.stuck.clear();
  Pass(60);
  EXPECT_THAT(Info().snapshots(), SizeIs(2));
}

TEST_F(SnapshotSchedulesTest, TakesSnapshotsByClocks) {
  idle_ = true;
  cluster_.kept_alive.insert(cluster_.Worker("ctr"));
  cluster_.shards().AdvanceMinClock(5);
  Pass(2);
  ASSERT_THAT(Set(0, 10, 3), IsOk());
  cluster_.shards().AdvanceMinClock(14);
  Pass(3);
  EXPECT_THAT(Snapshots(), IsEmpty());
  cluster_.shards().AdvanceMinClock(15);
  Pass(3);
  cluster_.shards().AdvanceMinClock(17);
  Pass(3);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  Pass(100);
  EXPECT_THAT(Snapshots(), SizeIs(1)) << "no clock has passed since";
}

TEST_F(SnapshotSchedulesTest, OtherSnapshotsStayAndSoDoAllAfterItsEnd) {
  v1::CreateSnapshotRequest request;
  request.set_job("ctr");
  Pending<v1::CreateSnapshotReply> own;
  cluster_.core().CreateSnapshot(request, absl::InfiniteFuture(), own.done());
  cluster_.Await(own);
  ASSERT_THAT(own.status(), IsOk());
  ASSERT_THAT(Set(10, 0, 1), IsOk());
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(2));
  EXPECT_THAT(Snapshots(), ::testing::Contains(own->snapshot().name()));
  ASSERT_THAT(End(), IsOk());
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(2));
  EXPECT_EQ(Info().job(), "");
}

TEST_F(SnapshotSchedulesTest, ARestartContinuesTheSchedule) {
  ASSERT_THAT(Set(100, 0, 2), IsOk());
  Pass(150);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  const std::string first = Snapshots()[0];
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(Info().snapshots(), ElementsAre(first));
  Pass(30);
  EXPECT_THAT(Snapshots(), SizeIs(1)) << "the last one was not so long ago";
  Pass(250);
  EXPECT_THAT(Snapshots(), SizeIs(2));
  EXPECT_THAT(Snapshots(), Not(::testing::Contains(first))) << "of an earlier coordinator, and too old";
}

TEST_F(SnapshotSchedulesTest, AFailureIsToldAndTriedAgain) {
  ASSERT_THAT(Set(10, 0, 1), IsOk());
  cluster_.shards().Segment(2).cannot_snapshot = "the disk is full";
  Pass(20);
  EXPECT_THAT(Info().last_failure(), HasSubstr("the disk is full"));
  ASSERT_THAT(cluster_.core().gauges().snapshot_schedules, SizeIs(1));
  EXPECT_EQ(cluster_.core().gauges().snapshot_schedules[0].failures, 1u) << "not at once again";
  EXPECT_NEAR(static_cast<double>(cluster_.core().gauges().snapshot_schedules[0].age_s), 20, 1);
  cluster_.shards().Segment(2).cannot_snapshot = "";
  Pass(32);
  EXPECT_THAT(Snapshots(), SizeIs(1));
  EXPECT_EQ(Info().last_failure(), "");
  files_.files.error = absl::PermissionDeniedError("read-only");
  Pass(120);
  EXPECT_GE(cluster_.core().gauges().snapshot_schedules[0].failures, 2u);
  files_.files.error = absl::OkStatus();
  Pass(62);
  EXPECT_THAT(Snapshots(), SizeIs(1));
  EXPECT_LE(cluster_.core().gauges().snapshot_schedules[0].age_s, 40);
}

TEST_F(SnapshotSchedulesTest, AWriteThatTheStoreRefusedIsRepeated) {
  ASSERT_THAT(Set(10, 0, 1), IsOk());
  Pass(8);
  // Commits of the cut's number, and then of what was taken.
  cluster_.store().Plan(FaultyStore::Fault::kFailBefore, 2);
  Pass(5);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  EXPECT_THAT(Info().snapshots(), ElementsAre(Snapshots()[0]));
}

TEST_F(SnapshotSchedulesTest, AJobThatReplacesAnotherHasItsSchedule) {
  ASSERT_THAT(Set(10, 0, 2), IsOk());
  Pass(13);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  const auto closed = cluster_.CloseSession(session_);
  cluster_.Await(closed);
  v1::RestoreSnapshotRequest request;
  request.set_snapshot(Snapshots()[0]);
  request.set_replace(true);
  Pending<v1::RestoreSnapshotReply> restored;
  cluster_.core().RestoreSnapshot(request, absl::InfiniteFuture(), restored.done());
  cluster_.Await(restored);
  ASSERT_THAT(restored.status(), IsOk());
  cluster_.shards().jobs_with_clocks = {restored->job()};
  Pass(60);
  EXPECT_THAT(Snapshots(), SizeIs(2));
  EXPECT_EQ(Info().job(), "ctr");
}

TEST_F(SnapshotSchedulesTest, AJobThatReplacesAnotherCountsFromItsOwnClock) {
  idle_ = true;
  v1::CreateSnapshotRequest request;
  request.set_job("ctr");
  Pending<v1::CreateSnapshotReply> old;
  cluster_.core().CreateSnapshot(request, absl::InfiniteFuture(), old.done());
  cluster_.Await(old);
  ASSERT_THAT(old.status(), IsOk());
  cluster_.shards().AdvanceMinClock(500);
  Pass(2);
  ASSERT_THAT(Set(0, 10, 3), IsOk());  // from clock 500 on
  const auto closed = cluster_.CloseSession(session_);
  cluster_.Await(closed);
  v1::RestoreSnapshotRequest restore;
  restore.set_snapshot(old->snapshot().name());
  restore.set_replace(true);
  Pending<v1::RestoreSnapshotReply> restored;
  cluster_.core().RestoreSnapshot(restore, absl::InfiniteFuture(), restored.done());
  cluster_.Await(restored);
  ASSERT_THAT(restored.status(), IsOk());
  ASSERT_EQ(restored->clock(), 0u);
  cluster_.shards().jobs_with_clocks = {restored->job()};
  cluster_.shards().AdvanceMinClock(9);
  Pass(3);
  EXPECT_THAT(Snapshots(), SizeIs(1));
  cluster_.shards().AdvanceMinClock(10);
  Pass(3);
  EXPECT_THAT(Snapshots(), SizeIs(2));
}

TEST_F(SnapshotSchedulesTest, NamesItsFailures) {
  EXPECT_THAT(Set(0, 0, 1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("every_s, every_clocks")));
  EXPECT_THAT(Set(5, 5, 1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("exactly one")));
  EXPECT_THAT(Set(5, 0, 0), StatusIs(StatusCode::kInvalidArgument, HasSubstr("keep: 0")));
  EXPECT_THAT(Set(5, 0, 1001), StatusIs(StatusCode::kInvalidArgument, HasSubstr("keep: 1001")));
  EXPECT_THAT(Set(5, 0, 1, "nobody"), StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
  TestCluster without(1);
  without.JoinShards();
  without.Opened("ctr");
  v1::ScheduleSnapshotsRequest request;
  request.set_job("ctr");
  EXPECT_THAT(without.core().ScheduleSnapshots(request).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--snapshot-dir")));
}

}  // namespace
}  // namespace paceline::coordinator
