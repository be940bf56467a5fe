// Snapshots taken, listed and deleted: at which clock, who waits, and what a restart finds.
#include "services/coordinator/metadata/snapshots/test_snapshots.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(SnapshotsTest, WithoutWorkersItIsTakenAtOnce) {
  const auto created = Done(Create());
  ASSERT_THAT(created.status(), IsOk());
  const v1::SnapshotManifest manifest = Manifest(created->snapshot().name());
  EXPECT_EQ(manifest.job(), "ctr");
  EXPECT_EQ(manifest.files_size(), 8);
  ASSERT_EQ(manifest.tables_size(), 1);
  EXPECT_EQ(manifest.tables(0).name(), "weights");
  EXPECT_TRUE(manifest.exact());
  EXPECT_EQ(created->snapshot().rows(), 80u);
  EXPECT_EQ(created->snapshot().created_unix_s(), 1'700'000'000);
  EXPECT_THAT(created->snapshot().held_back(), IsEmpty());
}

TEST_F(SnapshotsTest, TheManifestSaysThatClientsMayHoldBackUpdates) {
  v1::OpenTableRequest request;
  request.set_session(session_);
  request.set_token(cluster_.SecretOf(session_));
  request.set_name("weights");
  request.set_holds_back(true);
  ASSERT_THAT(cluster_.core().OpenTable(request), IsOk());
  const auto created = Done(Create());
  ASSERT_THAT(created.status(), IsOk());
  EXPECT_THAT(created->snapshot().held_back(), ::testing::ElementsAre("weights"));
  const v1::SnapshotManifest manifest = Manifest(created->snapshot().name());
  EXPECT_TRUE(manifest.tables(0).holds_back());
  ASSERT_THAT(Done(Restore(manifest.name(), "copy")).status(), IsOk());
  const v1::StatusReply status = cluster_.core().Status();
  ASSERT_EQ(status.tables_size(), 2);
  for (const v1::Table& table : status.tables()) {
    EXPECT_EQ(table.holds_back(), table.job() == manifest.tables(0).job()) << "nobody holds back the copy's";
  }
}

// Store and folders are those of an earlier moment, as a cluster is restored; the directory has gone on.
TEST_F(SnapshotsTest, SnapshotsOfALaterTimeOfTheClusterAreLeftAlone) {
  const MemoryStore::Disk before = cluster_.StoreCopy();
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    const auto created = Done(Create());
    ASSERT_THAT(created.status(), IsOk());
    names.push_back(created->snapshot().name());
  }
  const auto since = files_.files.folders;
  cluster_.Stop();
  cluster_.PutStore(before);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  for (uint32_t s = 0; s < 8; ++s) cluster_.shards().Segment(s).cut = 0;
  files_.unix_s += 3600;
  cluster_.shards().Segment(3).cannot_snapshot = "no space is left";
  EXPECT_THAT(Done(Create()).status(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("no space")));
  EXPECT_EQ(files_.files.folders, since) << "what was given up is not what was there";
  cluster_.shards().Segment(3).cannot_snapshot = "";
  const auto created = Done(Create());
  ASSERT_THAT(created.status(), IsOk());
  EXPECT_THAT(names, ::testing::Not(::testing::Contains(created->snapshot().name())));
  EXPECT_EQ(List().snapshots_size(), 4);
  for (const std::string& name : names) EXPECT_EQ(files_.files.folders[name], since.at(name)) << name;
}

TEST_F(SnapshotsTest, TheClockIsBeyondThoseOfAllWorkersAndNothingIsWrittenBefore) {
  cluster_.Worker("ctr");
  cluster_.shards().AdvanceMinClock(6);
  cluster_.Run(absl::Seconds(2));
  const auto created = Create();
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(created.answered());
  EXPECT_THAT(List().snapshots(), IsEmpty());
  EXPECT_THAT(Done(Create()).status(), StatusIs(StatusCode::kUnavailable, HasSubstr("is being taken")));
  cluster_.shards().AdvanceMinClock(8);
  cluster_.Await(created);
  ASSERT_THAT(created.status(), IsOk());
  EXPECT_EQ(created->snapshot().clock(), 8u);
}

TEST_F(SnapshotsTest, AClockThatIsPassedIsFollowedByALaterOne) {
  cluster_.Worker("ctr");
  cluster_.shards().Segment(5).min_clock = 40;  // what the shards have reported so far is older
  const auto created = Create();
  cluster_.Run(absl::Milliseconds(200));
  EXPECT_FALSE(created.answered());
  cluster_.shards().AdvanceMinClock(44);
  cluster_.Await(created);
  ASSERT_THAT(created.status(), IsOk());
  EXPECT_EQ(created->snapshot().clock(), 44u);
  const v1::SnapshotManifest manifest = Manifest(created->snapshot().name());
  for (const v1::SnapshotFile& file : manifest.files()) EXPECT_EQ(file.cut(), manifest.files(0).cut());
}

TEST_F(SnapshotsTest, ACutWhosePrimaryIsGoneIsTakenAgain) {
  cluster_.shards().Segment(3).cut_is_lost = true;
  const auto created = Done(Create());
  ASSERT_THAT(created.status(), IsOk());
  const v1::SnapshotManifest manifest = Manifest(created->snapshot().name());
  ASSERT_EQ(manifest.files_size(), 8);
  for (const v1::SnapshotFile& file : manifest.files()) EXPECT_EQ(file.cut(), 2u) << "of one cut only";
}

TEST_F(SnapshotsTest, WorkersThatEndDoNotHoldItUp) {
  const uint64_t worker = cluster_.Worker("ctr");
  const auto created = Create();
  cluster_.Run(absl::Milliseconds(100));
  EXPECT_FALSE(created.answered());
  Done(cluster_.FinishWorker(worker));
  cluster_.Await(created);
  EXPECT_THAT(created.status(), IsOk());
}

TEST_F(SnapshotsTest, NoWorkerJoinsUntilItIsTakenEverywhere) {
  const uint64_t other = cluster_.Opened("ctr2");
  cluster_.shards().at("shard-0").withheld.insert(0);
  cluster_.shards().at("shard-1").withheld.insert(0);
  const auto created = Create();
  const auto joining = cluster_.JoinJob(session_);
  const auto elsewhere = cluster_.JoinJob(other);
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(cluster_.StateOf(session_), "open");
  EXPECT_EQ(cluster_.StateOf(other), "joining") << "it is of another job";
  cluster_.shards().at("shard-0").withheld.clear();
  cluster_.shards().at("shard-1").withheld.clear();
  EXPECT_THAT(Done(created).status(), IsOk());
  EXPECT_THAT(Done(joining).status(), IsOk());
  EXPECT_THAT(Done(elsewhere).status(), IsOk());
}

TEST_F(SnapshotsTest, AJoiningWorkerWaitsForALimitedTime) {
  cluster_.kept_alive.insert(session_);
  cluster_.shards().at("shard-0").withheld.insert(0);
  cluster_.shards().at("shard-1").withheld.insert(0);
  const auto created = Create(false, /*timeout_ms=*/300'000);
  cluster_.Run(Snapshots::kHoldJoinsMax - absl::Seconds(2));
  const auto joining = cluster_.JoinJob(session_);
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(cluster_.StateOf(session_), "open");
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(session_), "joining");
  EXPECT_FALSE(created.answered());
  cluster_.shards().at("shard-0").withheld.clear();
  cluster_.shards().at("shard-1").withheld.clear();
  EXPECT_THAT(Done(created).status(), IsOk());
}

TEST_F(SnapshotsTest, NoSegmentIsAskedBeforeTheFolderExists) {
  files_.hangs = true;
  const auto created = Create(false, /*timeout_ms=*/3000);
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(cluster_.shards().Segment(0).cut, 0u);
  EXPECT_THAT(Done(created).status(), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("--snapshot-dir")));
  EXPECT_EQ(cluster_.shards().Segment(0).cut, 0u);
}

TEST_F(SnapshotsTest, AFailedSnapshotIsGivenUpAndItsCauseNamed) {
  cluster_.shards().Segment(2).cannot_snapshot = "the disk is full";
  EXPECT_THAT(Done(Create()).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("the disk is full")));
  EXPECT_THAT(List().snapshots(), IsEmpty());
  EXPECT_THAT(files_.files.folders, IsEmpty());
  cluster_.shards().Segment(2).cannot_snapshot.clear();
  EXPECT_THAT(Done(Create()).status(), IsOk());
}

TEST_F(SnapshotsTest, AClientThatGivesUpLeavesNothingBehind) {
  cluster_.Worker("ctr");
  EXPECT_THAT(
      Done(Create(false, /*timeout_ms=*/500)).status(),
      StatusIs(StatusCode::kDeadlineExceeded, AllOf(HasSubstr("job 'ctr'"), HasSubstr("the min clock"))));
  const auto abandoned = Create();
  cluster_.core().Abandon(abandoned.ticket);
  EXPECT_THAT(abandoned.status(), StatusIs(StatusCode::kCancelled, HasSubstr("gave")));
  EXPECT_THAT(Done(Create(/*now=*/true)).status(), IsOk());
  EXPECT_EQ(List().snapshots_size(), 1);
}

TEST_F(SnapshotsTest, RatesThatAreStillToComeAreWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(ChangeRatesAt(50));
  const auto created = Create();
  cluster_.shards().AdvanceMinClock(50);
  cluster_.Await(created);
  ASSERT_THAT(created.status(), IsOk());
  EXPECT_EQ(created->snapshot().clock(), 50u);
}

TEST_F(SnapshotsTest, RatesThatNoWorkerWillReachAreNamed) {
  ASSERT_NO_FATAL_FAILURE(ChangeRatesAt(50));
  EXPECT_THAT(Done(Create(/*now=*/true)).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("at clock 50")));
}

TEST_F(SnapshotsTest, RatesThatAreBeingChangedAreThoseOfTheManifest) {
  v1::TableSchema schema = SparseSchema();
  schema.mutable_rule()->mutable_sgd()->set_learning_rate(1);
  const auto table = cluster_.OpenTable(session_, "rates", schema);
  ASSERT_THAT(table, IsOk());
  v1::ChangeRuleRequest request;
  request.set_session(session_);
  request.set_table(table->table().id());
  request.mutable_rule()->mutable_sgd()->set_learning_rate(2);
  cluster_.shards().hold = [](const std::string& call, const std::string& shard) {
    return call == "rule" && shard == "shard-1";
  };
  const auto changed = cluster_.ChangeRule(request);
  cluster_.Run(absl::Seconds(1));
  cluster_.shards().hold = [](auto&, auto&) { return false; };
  const auto created = Create();
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(created.answered()) << "some segments have changed them, and the catalogue does not know it";
  cluster_.shards().LetGo();
  cluster_.Await(changed);
  cluster_.Await(created);
  ASSERT_THAT(created.status(), IsOk());
  const v1::SnapshotManifest manifest = Manifest(created->snapshot().name());
  ASSERT_EQ(manifest.tables_size(), 2);
  EXPECT_EQ(manifest.tables(1).schema().rule().sgd().learning_rate(), 2);
}

TEST_F(SnapshotsTest, AJobThatLosesDataMeanwhileGetsNone) {
  cluster_.kept_alive.insert(cluster_.Worker("ctr"));
  const auto created = Create();  // it waits for the clocks
  cluster_.shards().at("shard-0").up = false;
  cluster_.Run(absl::Seconds(4));
  EXPECT_FALSE(created.answered()) << created.status();
  ASSERT_THAT(cluster_.AcceptLosses(), IsOk());
  cluster_.Await(created);
  EXPECT_THAT(created.status(), StatusIs(StatusCode::kDataLoss, HasSubstr("was accepted")));
  EXPECT_THAT(files_.files.folders, IsEmpty());
}

TEST_F(SnapshotsTest, TheyNameDataThatTheJobLacksAndSoDoJobsMadeFromThem) {
  cluster_.shards().at("shard-0").up = false;
  cluster_.Run(absl::Seconds(4));
  ASSERT_THAT(cluster_.AcceptLosses(), IsOk());
  cluster_.Run(absl::Seconds(1));
  const std::string lost = cluster_.core().Status().jobs(0).data_lost();
  ASSERT_THAT(lost, HasSubstr("began empty"));
  WriteSnapshotsTo(files_, cluster_.shards());
  const auto created = Done(Create());
  ASSERT_THAT(created.status(), IsOk());
  EXPECT_EQ(created->snapshot().data_lost(), lost);
  EXPECT_EQ(Manifest(created->snapshot().name()).data_lost(), lost);
  ASSERT_THAT(Done(Restore(created->snapshot().name(), "again")).status(), IsOk());
  const v1::StatusReply status = cluster_.core().Status();
  EXPECT_EQ(status.jobs_size(), 2);
  for (const v1::JobStatus& job : status.jobs()) EXPECT_EQ(job.data_lost(), lost) << job.name();
}

TEST_F(SnapshotsTest, AJobThatIsDeletedMeanwhileGetsNone) {
  cluster_.shards().hold = [](const std::string& call, auto&) { return call == "cut"; };
  const auto created = Create();
  cluster_.Run(absl::Milliseconds(1));
  v1::DeleteJobRequest request;
  request.set_job("ctr");
  request.set_force(true);
  Pending<v1::DeleteJobReply> deleted;
  cluster_.core().DeleteJob(request, absl::InfiniteFuture(), deleted.done());
  cluster_.shards().hold = [](auto&, auto&) { return false; };
  cluster_.shards().LetGo();
  cluster_.Await(created);
  EXPECT_THAT(created.status(), StatusIs(StatusCode::kNotFound, HasSubstr("deleted")));
  EXPECT_THAT(List().snapshots(), IsEmpty());
}

TEST_F(SnapshotsTest, ADeletedFolderIsNotCompleted) {
  cluster_.shards().Segment(7).write_snapshot = [this](const std::string& folder, const std::string&) {
    EXPECT_THAT(files_.files.RemoveFolder(folder), IsOk());
  };
  EXPECT_THAT(Done(Create()).status(), StatusIs(StatusCode::kNotFound, HasSubstr("segment-")));
}

TEST_F(SnapshotsTest, RequestsEndIfTheFilesDoNotAnswer) {
  files_.hangs = true;
  v1::ListSnapshotsRequest request;
  request.set_timeout_ms(500);
  Pending<v1::ListSnapshotsReply> pending;
  cluster_.core().ListSnapshots(request, absl::InfiniteFuture(), pending.done());
  cluster_.Run(absl::Milliseconds(100));
  EXPECT_FALSE(pending.answered());
  cluster_.Await(pending);
  EXPECT_THAT(pending.status(), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("--snapshot-dir")));
}

TEST_F(SnapshotsTest, DeletesAndRefuses) {
  const std::string name = Done(Create())->snapshot().name();
  EXPECT_THAT(Delete("nothing"), StatusIs(StatusCode::kNotFound, HasSubstr("nothing")));
  EXPECT_THAT(Delete("../x"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("is not a valid name")));
  EXPECT_THAT(Delete(name), IsOk());
  EXPECT_THAT(List().snapshots(), IsEmpty());
  EXPECT_THAT(files_.files.folders, IsEmpty());
  files_.files.error = absl::UnavailableError("the volume is gone");
  EXPECT_THAT(Done(Create()).status(), StatusIs(StatusCode::kUnavailable, HasSubstr("volume")));
}

TEST(NoSnapshotsTest, WithoutADirectoryTheFlagIsNamed) {
  TestCluster cluster;
  cluster.JoinShards();
  v1::CreateSnapshotRequest request;
  request.set_job("ctr");
  Pending<v1::CreateSnapshotReply> pending;
  cluster.core().CreateSnapshot(request, absl::InfiniteFuture(), pending.done());
  EXPECT_THAT(pending.status(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--snapshot-dir")));
}

}  // namespace
}  // namespace paceline::coordinator
