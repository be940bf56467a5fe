// Jobs deleted: who asks, who is refused, which job is meant, and what a restart finds.
#include "services/coordinator/metadata/jobs/test_job_changes.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(JobChangesTest, AJobWithSessionsIsDeletedByForceOnly) {
  const uint64_t stranger = cluster_.Opened("other");
  const uint32_t theirs = Table(stranger, "weights");
  EXPECT_THAT(
      cluster_.DeleteJob("ctr").status(),
      StatusIs(StatusCode::kFailedPrecondition, AllOf(HasSubstr("1 open session"), HasSubstr("a test"))));
  EXPECT_THAT(cluster_.DeleteJob("nobody").status(), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(cluster_.DeleteJob("").status(), StatusIs(StatusCode::kInvalidArgument));

  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto deleting = cluster_.DeleteJob("ctr", /*force=*/true);
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(Dropped(weights_), 0) << "its sessions are closed everywhere first";
  EXPECT_THAT(TableNames(), ElementsAre("weights", "weights"));
  EXPECT_TRUE(cluster_.core().Status().jobs(0).deleting());
  EXPECT_THAT(cluster_.KeepAlive(session_),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was deleted")));
  EXPECT_THAT(cluster_.OpenSession("ctr", 5).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("deleted")));
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(deleting);
  ASSERT_THAT(deleting.status(), IsOk());
  EXPECT_EQ(Dropped(weights_), 8);
  EXPECT_EQ(cluster_.CountSegments([](const FakeSegment& s) { return s.closed_jobs.contains(1); }), 8);
  EXPECT_EQ(Dropped(theirs), 0);
  EXPECT_EQ(cluster_.core().Status().jobs_size(), 1);
  EXPECT_THAT(cluster_.KeepAlive(stranger), IsOk());

  const uint64_t again = cluster_.Opened("ctr");
  const auto opened = cluster_.OpenTable(again, "weights", SparseSchema(3));
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(opened->table().job(), 3u) << "another job, of the same name";
  EXPECT_EQ(opened->table().id(), 3u);
}

TEST_F(JobChangesTest, AJobWithoutSessionsIsDeletedAtOnce) {
  cluster_.Await(cluster_.CloseSession(session_));
  EXPECT_THAT(Done(cluster_.DeleteJob("ctr")).status(), IsOk());
  EXPECT_EQ(cluster_.core().Status().jobs_size(), 0);
  EXPECT_THAT(TableNames(), IsEmpty());
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_EQ(cluster_.core().Status().jobs_size(), 0);
}

TEST_F(JobChangesTest, ARestartTakesADeletionUpAgain) {
  for (const bool sessions_closed : {false, true}) {
    const std::string job = sessions_closed ? "second" : "first";
    const uint64_t session = cluster_.Opened(job);
    const uint32_t table = Table(session, "w");
    if (sessions_closed) Done(cluster_.CloseSession(session));
    cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto deleting = cluster_.DeleteJob(job, /*force=*/true);
    cluster_.Run(absl::Milliseconds(300));
    EXPECT_FALSE(deleting.answered());
    ASSERT_THAT(cluster_.Restart(), IsOk());
    cluster_.shards().at("shard-1").withheld.clear();
    cluster_.Run(absl::Seconds(5));
    EXPECT_EQ(Dropped(table), 8) << job;
    EXPECT_EQ(cluster_.core().Status().jobs_size(), 1) << job;
  }
}

// The first answer is lost, and somebody makes a job of the name before the request comes again.
TEST_F(JobChangesTest, ARepeatedDeletionIsAboutTheSameJob) {
  for (const auto& [by_id, by_nonce] :
       {std::pair(true, true), {true, false}, {false, true}, {false, false}}) {
    const bool known = by_id || by_nonce;
    SCOPED_TRACE(::testing::Message() << "id " << by_id << ", nonce " << by_nonce);
    const uint64_t session = cluster_.Opened("again");
    const uint32_t meant = JobNamed("again");
    v1::DeleteJobRequest request;
    request.set_job("again");
    request.set_force(true);
    if (by_id) request.set_job_id(meant);
    if (by_nonce) request.set_nonce(40 + meant);
    ASSERT_THAT(Done(cluster_.DeleteJob(request)).status(), IsOk());
    EXPECT_EQ(JobNamed("again"), 0u);
    EXPECT_THAT(Done(cluster_.DeleteJob(request)).status(),
                known ? StatusIs(StatusCode::kOk) : StatusIs(StatusCode::kNotFound));
    cluster_.kept_alive.erase(session);
    const uint64_t later = cluster_.Opened("again");
    ASSERT_THAT(cluster_.Restart(), IsOk());
    EXPECT_THAT(Done(cluster_.DeleteJob(request)).status(), IsOk());
    EXPECT_EQ(cluster_.StateOf(later), known ? "open" : "closed") << "by name it is the new job";
    cluster_.kept_alive.erase(later);
    if (known) Done(cluster_.DeleteJob("again", /*force=*/true));
  }
}

// Another client's request has begun it.
TEST_F(JobChangesTest, ANonceThatMeetsADeletionUnderWayIsRememberedToo) {
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto first = cluster_.DeleteJob("ctr", /*force=*/true);
  v1::DeleteJobRequest request;
  request.set_job("ctr");
  request.set_nonce(5);
  const auto second = cluster_.DeleteJob(request);
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(second);
  ASSERT_THAT(second.status(), IsOk());
  cluster_.kept_alive.clear();
  const uint64_t later = cluster_.Opened("ctr");
  cluster_.Await(cluster_.CloseSession(later));
  EXPECT_THAT(Done(cluster_.DeleteJob(request)).status(), IsOk());
  EXPECT_NE(JobNamed("ctr"), 0u);
}

TEST_F(JobChangesTest, AnIdThatIsNotTheNamedJobsIsRefused) {
  v1::DeleteJobRequest request;
  request.set_job("ctr");
  request.set_job_id(99);
  EXPECT_THAT(cluster_.DeleteJob(request).status(), StatusIs(StatusCode::kNotFound, HasSubstr("99")));
  request.set_job("other");
  request.set_job_id(JobNamed("ctr"));
  EXPECT_THAT(cluster_.DeleteJob(request).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is 'ctr'")));
  EXPECT_NE(JobNamed("ctr"), 0u);
}

TEST_F(JobChangesTest, ManySessionsAreClosedToo) {
  for (int i = 0; i < 300; ++i) cluster_.Opened("crowd");
  cluster_.kept_alive = {session_};
  EXPECT_THAT(cluster_.DeleteJob("crowd").status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("300 open sessions")));
  EXPECT_THAT(Done(cluster_.DeleteJob("crowd", /*force=*/true)).status(), IsOk());
  EXPECT_EQ(cluster_.core().Status().jobs_size(), 1);
}

}  // namespace
}  // namespace paceline::coordinator
