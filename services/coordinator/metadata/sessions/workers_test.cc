// Joining a job's clocks, alone and together, and finishing.
#include "libs/base/test_util/status_matchers.h"
#include "libs/wire/packed.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class WorkersTest : public ::testing::Test {
 protected:
  WorkersTest() { cluster_.JoinShards(); }
  int WorkerIn(uint64_t session) {
    return cluster_.CountSegments([=](const FakeSegment& s) { return s.workers.contains(session); });
  }
  int FinishedIn(uint64_t session) {
    return cluster_.CountSegments([=](const FakeSegment& s) { return s.finished.contains(session); });
  }
  void Report() { cluster_.shards().BeatAll(cluster_.core()); }

  TestCluster cluster_{2};
};

// -- one worker --

TEST_F(WorkersTest, TheFirstStartsAtClock0) {
  const uint64_t session = cluster_.Opened("ctr");
  const auto joining = cluster_.JoinJob(session);
  EXPECT_FALSE(joining.answered());
  cluster_.Run(absl::Milliseconds(20));
  ASSERT_THAT(joining.status(), IsOk());
  EXPECT_EQ(joining->start_clock(), 0u);
  EXPECT_EQ(joining->rank(), 0u);
  EXPECT_EQ(WorkerIn(session), 8);
  EXPECT_EQ(cluster_.StateOf(session), "worker");
}

TEST_F(WorkersTest, ANewcomerStartsTwoBeyondTheLargestKnownMinClock) {
  ASSERT_NE(cluster_.Worker("ctr"), 0u);
  cluster_.shards().AdvanceMinClock(5);
  Report();
  const uint64_t newcomer = cluster_.Opened("ctr");
  const auto joining = cluster_.JoinJob(newcomer);
  cluster_.Await(joining);
  ASSERT_THAT(joining.status(), IsOk());
  EXPECT_EQ(joining->start_clock(), 7u);
  EXPECT_EQ(joining->rank(), 1u);
}

TEST_F(WorkersTest, WithoutOtherWorkersItStartsAtTheMinClock) {
  const uint64_t first = cluster_.Worker("ctr");
  cluster_.shards().AdvanceMinClock(5);
  Report();
  cluster_.Await(cluster_.FinishWorker(first));
  const auto joining = cluster_.JoinJob(cluster_.Opened("ctr"));
  cluster_.Await(joining);
  ASSERT_THAT(joining.status(), IsOk());
  EXPECT_EQ(joining->start_clock(), 5u);
  EXPECT_EQ(joining->rank(), 0u) << "the rank is free again";
}

TEST_F(WorkersTest, RepeatingTheCallReturnsTheSame) {
  const uint64_t session = cluster_.Opened("ctr");
  const auto first = cluster_.JoinJob(session);
  const auto meanwhile = cluster_.JoinJob(session);
  cluster_.Run(absl::Milliseconds(20));
  cluster_.shards().AdvanceMinClock(5);
  Report();
  const auto later = cluster_.JoinJob(session);
  for (const auto& joining : {first, meanwhile, later}) {
    ASSERT_THAT(joining.status(), IsOk());
    EXPECT_EQ(joining->start_clock(), 0u);
  }
}

TEST_F(WorkersTest, OnlyAnOpenSessionJoins) {
  EXPECT_THAT(cluster_.JoinJob(9).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("never opened")));
  const auto opening = cluster_.OpenSession("ctr", 7);
  EXPECT_THAT(cluster_.JoinJob(1).status(), StatusIs(StatusCode::kUnavailable, HasSubstr("not open yet")));
  cluster_.Await(opening);
  cluster_.Await(cluster_.JoinJob(1));
  cluster_.Await(cluster_.FinishWorker(1));
  EXPECT_THAT(cluster_.JoinJob(1).status(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("finished")));
}

TEST_F(WorkersTest, TheDeadlineNamesTheMissingWorkers) {
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto joining = cluster_.JoinJob(session, 0, 0, 1000);
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(joining.status(), StatusIs(StatusCode::kDeadlineExceeded,
                                         AllOf(HasSubstr("shard-1"), HasSubstr("3 of 4 parts applied"))));
  cluster_.shards().at("shard-1").withheld.clear();
  const auto again = cluster_.JoinJob(session);
  cluster_.Await(again);
  EXPECT_THAT(again.status(), IsOk());
}

// -- ranks --

TEST_F(WorkersTest, AWishedRankIsGivenOrRefused) {
  const uint64_t first = cluster_.Opened("ctr");
  const auto wishing = cluster_.JoinJob(first, 0, 3 + 1);
  cluster_.Await(wishing);
  ASSERT_THAT(wishing.status(), IsOk());
  EXPECT_EQ(wishing->rank(), 3u);
  const uint64_t second = cluster_.Opened("ctr");
  EXPECT_THAT(
      cluster_.JoinJob(second, 0, 3 + 1).status(),
      StatusIs(StatusCode::kAlreadyExists, AllOf(HasSubstr("rank: 3 is session 1's"), HasSubstr("a test"))));
  const auto without = cluster_.JoinJob(second);
  cluster_.Await(without);
  EXPECT_EQ(without->rank(), 0u);
  EXPECT_THAT(cluster_.JoinJob(cluster_.Opened("ctr"), 0, 5000).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank")));
  const auto elsewhere = cluster_.JoinJob(cluster_.Opened("other"), 0, 3 + 1);
  cluster_.Await(elsewhere);
  EXPECT_THAT(elsewhere.status(), IsOk()) << "ranks are a job's own";
}

TEST_F(WorkersTest, TheRankOfAClosingWorkerIsFreeOnceThatIsClosedEverywhere) {
  const uint64_t first = cluster_.Worker("ctr");
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto closing = cluster_.CloseSession(first);
  cluster_.shards().Deliver();
  cluster_.shards().at("shard-1").withheld.clear();
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.shards().Deliver();
  ASSERT_THAT(opening.status(), IsOk());
  EXPECT_THAT(cluster_.JoinJob(opening->session(), 0, 1).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("until that is closed everywhere")));
  cluster_.Await(closing);
  const auto joining = cluster_.JoinJob(opening->session(), 0, 1);
  cluster_.Await(joining);
  EXPECT_THAT(joining.status(), IsOk());
}

// -- refusals --

TEST_F(WorkersTest, AStartThatWasPassedIsRefusedAndANewSessionGetsALaterOne) {
  ASSERT_NE(cluster_.Worker("ctr"), 0u);
  cluster_.shards().AdvanceMinClock(9);  // and no beat says so
  const uint64_t newcomer = cluster_.Opened("ctr");
  const auto joining = cluster_.JoinJob(newcomer);
  cluster_.Run(absl::Milliseconds(20));
  EXPECT_THAT(joining.status(),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("join again with a new session"), HasSubstr("min clock 9"))));
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_EQ(cluster_.StateOf(newcomer), "closed");
  EXPECT_EQ(WorkerIn(newcomer), 0);
  EXPECT_THAT(cluster_.JoinJob(newcomer).status(), StatusIs(StatusCode::kAborted))
      << "a repeated call hears it too";
  EXPECT_THAT(cluster_.KeepAlive(newcomer), StatusIs(StatusCode::kAborted));
  const auto again = cluster_.JoinJob(cluster_.Opened("ctr"));
  cluster_.Await(again);
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_EQ(again->start_clock(), 13u) << "9, and a margin that doubles with each refusal";
  const auto after = cluster_.JoinJob(cluster_.Opened("ctr"));
  cluster_.Await(after);
  EXPECT_EQ(after->start_clock(), 11u) << "a start that succeeds resets it";
}

TEST_F(WorkersTest, NoSegmentKeepsAWorkerThatWasRefusedElsewhere) {
  ASSERT_NE(cluster_.Worker("ctr"), 0u);
  cluster_.shards().Segment(5).min_clock = 9;  // one segment is ahead; the others take the join
  const uint64_t newcomer = cluster_.Opened("ctr");
  const auto joining = cluster_.JoinJob(newcomer);
  cluster_.Await(joining);
  EXPECT_THAT(joining.status(), StatusIs(StatusCode::kAborted, HasSubstr("segment 5")));
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_EQ(WorkerIn(newcomer), 0);
  const auto again = cluster_.JoinJob(cluster_.Opened("ctr"));
  cluster_.Await(again);
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_GE(again->start_clock(), 9u);
}

// -- joint starts --

TEST_F(WorkersTest, SeveralStartTogetherAtOneClock) {
  std::vector<Pending<v1::JoinJobReply>> joining;
  for (int i = 0; i < 3; ++i) joining.push_back(cluster_.JoinJob(cluster_.Opened("ctr"), 3));
  EXPECT_FALSE(joining[0].answered());
  cluster_.Run(absl::Milliseconds(50));
  std::set<uint32_t> ranks;
  for (const auto& join : joining) {
    ASSERT_THAT(join.status(), IsOk());
    EXPECT_EQ(join->start_clock(), 0u);
    ranks.insert(join->rank());
  }
  EXPECT_EQ(ranks, (std::set<uint32_t>{0, 1, 2}));
}

TEST_F(WorkersTest, AJointStartIsAnsweredOnceAllAreWorkersEverywhere) {
  const uint64_t a = cluster_.Opened("ctr");
  const uint64_t b = cluster_.Opened("ctr");
  const auto join_a = cluster_.JoinJob(a, 2);
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_EQ(WorkerIn(a), 0) << "the clocks do not start without the others";
  // Of the two calls that shard-0 gets, the second (for b) is not committed at first.
  FakeShard& shard = cluster_.shards().at("shard-0");
  const auto join_b = cluster_.JoinJob(b, 2);
  v1::ChangeReply all;
  all.set_map_version(1);
  for (uint32_t s = 0; s < 8; ++s) all.add_committed(s);
  shard.scripted = {all, v1::ChangeReply()};
  cluster_.shards().Deliver();
  EXPECT_EQ(cluster_.StateOf(a), "worker");
  EXPECT_EQ(cluster_.StateOf(b), "joining");
  EXPECT_FALSE(join_a.answered());
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(join_a.status(), IsOk());
  EXPECT_THAT(join_b.status(), IsOk());
}

TEST_F(WorkersTest, AllOfAJointStartStateTheSameNumber) {
  const uint64_t a = cluster_.Opened("ctr");
  const uint64_t b = cluster_.Opened("ctr");
  const auto join_a = cluster_.JoinJob(a, 3);
  EXPECT_THAT(
      cluster_.JoinJob(b, 4).status(),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("workers"), HasSubstr("4"), HasSubstr("3"))));
  EXPECT_THAT(cluster_.JoinJob(b, 5000).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("at most")));
}

TEST_F(WorkersTest, WishedRanksAreKeptAndTheOthersGetTheRest) {
  const auto a = cluster_.JoinJob(cluster_.Opened("ctr"), 3);
  const auto b = cluster_.JoinJob(cluster_.Opened("ctr"), 3, 0 + 1);
  const uint64_t c = cluster_.Opened("ctr");
  EXPECT_THAT(cluster_.JoinJob(c, 3, 0 + 1).status(),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("rank")));
  const auto join_c = cluster_.JoinJob(c, 3);
  cluster_.Await(join_c);
  EXPECT_EQ(a->rank(), 1u);
  EXPECT_EQ(b->rank(), 0u);
  EXPECT_EQ(join_c->rank(), 2u);
}

TEST_F(WorkersTest, TheDeadlineOfAJointStartNamesHowManyHaveCome) {
  const auto a = cluster_.JoinJob(cluster_.Opened("ctr"), 3, 0, 5000);
  const auto b = cluster_.JoinJob(cluster_.Opened("ctr"), 3, 0, 9000);
  EXPECT_THAT(cluster_.Problems(),
              Contains(HasSubstr("2 of 3 workers of job 'ctr' have asked to join (sessions 1, 2)")));
  cluster_.Run(absl::Seconds(6));
  EXPECT_THAT(a.status(), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("2 of 3 workers of job 'ctr'")));
  cluster_.Run(absl::Seconds(4));
  EXPECT_THAT(b.status(), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("1 of 3 workers")))
      << "who no longer waits is not counted";
}

TEST_F(WorkersTest, AWorkerThatGaveUpIsNotCounted) {
  const auto gone = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  cluster_.core().Abandon(gone.ticket);
  const auto a = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(a.answered());
  const auto b = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  cluster_.Await(b);
  EXPECT_THAT(a.status(), IsOk());
  EXPECT_THAT(b.status(), IsOk());
}

TEST_F(WorkersTest, AMemberThatEndsWhileJoiningIsNotWaitedFor) {
  const uint64_t a = cluster_.Opened("ctr");
  const uint64_t b = cluster_.Opened("ctr");
  const auto join_a = cluster_.JoinJob(a, 2);
  FakeShard& shard = cluster_.shards().at("shard-0");
  const auto join_b = cluster_.JoinJob(b, 2);
  v1::ChangeReply all;
  all.set_map_version(1);
  for (uint32_t s = 0; s < 8; ++s) all.add_committed(s);
  shard.scripted = {all, v1::ChangeReply()};
  cluster_.shards().Deliver();
  EXPECT_FALSE(join_a.answered());
  const auto closing = cluster_.CloseSession(b);
  EXPECT_THAT(join_b.status(), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(join_a.status(), IsOk());
}

TEST_F(WorkersTest, ALatecomerOfAJointStartJoinsAtOnce) {
  const auto a = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  const auto b = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  cluster_.Await(b);
  ASSERT_THAT(a.status(), IsOk());
  cluster_.Await(cluster_.CloseSession(2));  // its process is started again
  const auto again = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  cluster_.Await(again);
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_EQ(again->rank(), 1u);
}

TEST_F(WorkersTest, ARefusedJointStartIsRefusedToAll) {
  const uint64_t first = cluster_.Worker("ctr");
  cluster_.shards().AdvanceMinClock(9);
  std::vector<uint64_t> sessions;
  std::vector<Pending<v1::JoinJobReply>> joining;
  for (int i = 0; i < 2; ++i) {
    sessions.push_back(cluster_.Opened("ctr"));
    joining.push_back(cluster_.JoinJob(sessions.back(), 2));
  }
  cluster_.Run(absl::Milliseconds(100));
  for (const auto& join : joining) EXPECT_THAT(join.status(), StatusIs(StatusCode::kAborted));
  for (const uint64_t session : sessions) EXPECT_EQ(WorkerIn(session), 0);
  EXPECT_EQ(WorkerIn(first), 8) << "who worked already goes on";
  const auto a = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  const auto b = cluster_.JoinJob(cluster_.Opened("ctr"), 2);
  cluster_.Await(b);
  ASSERT_THAT(a.status(), IsOk());
  EXPECT_EQ(a->start_clock(), b->start_clock());
  EXPECT_GE(a->start_clock(), 9u);
}

TEST_F(WorkersTest, AfterARestartTheClocksAreAskedForFirst) {
  ASSERT_NE(cluster_.Worker("ctr"), 0u);
  cluster_.shards().AdvanceMinClock(40);
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.beating = false;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const auto joining = cluster_.JoinJob(session, 0, 0, 20'000);
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(joining.answered());
  const auto impatient = cluster_.JoinJob(session, 0, 0, 1000);
  cluster_.Run(absl::Milliseconds(1100));
  EXPECT_THAT(impatient.status(), StatusIs(StatusCode::kDeadlineExceeded,
                                           AllOf(HasSubstr("first report"), HasSubstr("shard-0"))));
  cluster_.beating = true;
  cluster_.Run(absl::Seconds(2));
  ASSERT_THAT(joining.status(), IsOk());
  EXPECT_EQ(joining->start_clock(), 42u);
}

// -- finishing --

TEST_F(WorkersTest, FinishingIsDoneEverywhereAndMayBeRepeated) {
  const uint64_t session = cluster_.Worker("ctr");
  const auto first = cluster_.FinishWorker(session);
  const auto meanwhile = cluster_.FinishWorker(session);
  cluster_.Run(absl::Milliseconds(20));
  EXPECT_THAT(first.status(), IsOk());
  EXPECT_THAT(meanwhile.status(), IsOk());
  EXPECT_THAT(cluster_.FinishWorker(session).status(), IsOk());
  EXPECT_EQ(FinishedIn(session), 8);
  EXPECT_EQ(cluster_.StateOf(session), "finished");
  EXPECT_THAT(cluster_.KeepAlive(session), IsOk()) << "it is still a session";
}

TEST_F(WorkersTest, SealsAreCheckedAndPassedOn) {
  const uint64_t session = cluster_.Worker("ctr");
  v1::FinishWorkerRequest request;
  request.set_session(session);
  request.set_token(cluster_.SecretOf(session));
  const auto finish = [&] {
    Pending<v1::FinishWorkerReply> pending;
    cluster_.core().FinishWorker(request, absl::InfiniteFuture(), pending.done());
    return pending;
  };
  request.set_seals("short");
  EXPECT_THAT(finish().status(), StatusIs(StatusCode::kInvalidArgument));
  const auto seals = [](uint32_t segment, uint32_t run, uint64_t number) {
    std::string bytes;
    wire::Append(
        wire::Seal{.segment = SegmentId(segment), .run = run, .line = Line::kArrival, .number = number},
        bytes);
    return bytes;
  };
  request.set_seals(seals(7, 2, 1));
  EXPECT_THAT(finish().status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("the ring has 8")));
  request.set_seals(seals(0, 8, 4));
  request.set_clock(30);
  cluster_.shards().at("shard-0").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto finishing = finish();
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_EQ(cluster_.shards().at("shard-1").changes.back().finish().seals(), request.seals());
  EXPECT_EQ(cluster_.shards().at("shard-1").changes.back().finish().clock(), 30u);
  request.set_seals(seals(0, 8, 5));
  EXPECT_THAT(finish().status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("other ones")));
  request.set_seals(seals(0, 8, 4));
  request.set_clock(31);
  EXPECT_THAT(finish().status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("another clock than 30")));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.shards().at("shard-0").changes.clear();
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_EQ(cluster_.shards().at("shard-0").changes.back().finish().seals(), seals(0, 8, 4))
      << "they are part of the intent";
  EXPECT_EQ(cluster_.shards().at("shard-0").changes.back().finish().clock(), 30u);
}

TEST_F(WorkersTest, TheDeadlineOfAFinishEndsTheWaitOnly) {
  const uint64_t session = cluster_.Worker("ctr");
  FakeShard& shard = cluster_.shards().at("shard-0");
  shard.withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto finishing = cluster_.FinishWorker(session, 1000);
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(finishing.status(), StatusIs(StatusCode::kDeadlineExceeded,
                                           AllOf(HasSubstr("shard-0"), HasSubstr("3 of 4 parts applied"))));
  shard.withheld.clear();
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(cluster_.StateOf(session), "finished");
}

TEST_F(WorkersTest, OnlyAWorkerFinishes) {
  const uint64_t session = cluster_.Opened("ctr");
  EXPECT_THAT(cluster_.FinishWorker(session).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("is not a worker")));
}

TEST_F(WorkersTest, ASilentWorkerIsEvictedFromTheClocks) {
  const uint64_t session = cluster_.Worker("ctr");
  cluster_.kept_alive.clear();
  cluster_.Run(absl::Seconds(12));
  EXPECT_EQ(cluster_.StateOf(session), "closed");
  EXPECT_EQ(WorkerIn(session), 0);
  EXPECT_THAT(cluster_.FinishWorker(session).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("evicted")));
}

TEST_F(WorkersTest, AWorkersReportIsShownWhileItWorks) {
  const uint64_t session = cluster_.Worker("ctr");
  ASSERT_EQ(cluster_.core().gauges().workers.size(), 1u);
  EXPECT_EQ(cluster_.core().gauges().workers[0].told.loss, std::nullopt) << "it has told none";
  v1::KeepAliveRequest request;
  request.set_session(session);
  request.set_token(cluster_.SecretOf(session));
  for (const double loss : {0.7, 0.5}) {
    request.set_loss(loss);
    request.set_rows_from_cache(request.rows_from_cache() + 3);
    request.set_rows_pulled(request.rows_pulled() + 4);
    ASSERT_THAT(cluster_.core().KeepAlive(request), IsOk());
  }
  ASSERT_THAT(cluster_.KeepAlive(session), IsOk()) << "that says nothing of a loss";
  ASSERT_EQ(cluster_.core().gauges().workers.size(), 1u);
  const Gauges::Worker worker = cluster_.core().gauges().workers[0];
  EXPECT_EQ(worker.name, "ctr");
  EXPECT_EQ(worker.rank, 0u);
  EXPECT_EQ(worker.told.loss, 0.5);
  EXPECT_EQ(worker.told.rows_from_cache, 6u);
  EXPECT_EQ(worker.told.rows_pulled, 8u);
  cluster_.Await(cluster_.CloseSession(session));
  EXPECT_TRUE(cluster_.core().gauges().workers.empty());
}

TEST_F(WorkersTest, StatusTellsWhereEverybodyIs) {
  const uint64_t session = cluster_.Worker("ctr");
  cluster_.shards().AdvanceMinClock(6);
  Report();
  ASSERT_THAT(cluster_.KeepAlive(session, 8), IsOk());
  const v1::StatusReply status = cluster_.core().Status();
  ASSERT_EQ(status.jobs_size(), 1);
  EXPECT_EQ(status.jobs(0).name(), "ctr");
  EXPECT_EQ(status.jobs(0).min_clock(), 6u);
  ASSERT_EQ(status.jobs(0).sessions_size(), 1);
  EXPECT_EQ(status.jobs(0).sessions(0).state(), "worker");
  EXPECT_EQ(status.jobs(0).sessions(0).clock(), 8u);
  EXPECT_EQ(status.jobs(0).sessions(0).client(), "a test");
  EXPECT_EQ(status.segments(), 8u);
  EXPECT_EQ(cluster_.core().gauges().sessions["worker"], 1u);
}

TEST_F(WorkersTest, StatusHasTheNewestWordOfAWorkersTime) {
  const uint64_t session = cluster_.Worker("ctr");
  const auto time = [&] { return cluster_.core().Status().jobs(0).sessions(0); };
  EXPECT_FALSE(time().has_time());
  v1::KeepAliveRequest request;
  request.set_session(session);
  request.set_token(cluster_.SecretOf(session));
  request.mutable_time()->set_compute_us(7);
  ASSERT_THAT(cluster_.core().KeepAlive(request), IsOk());
  EXPECT_EQ(time().time().compute_us(), 7u);
  request.mutable_time()->add_of_tables()->set_name(std::string(5000, 't'));
  request.mutable_time()->set_compute_us(8);
  ASSERT_THAT(cluster_.core().KeepAlive(request), IsOk());
  EXPECT_EQ(time().time().compute_us(), 7u) << "a word that is too large is not kept";
}

}  // namespace
}  // namespace paceline::coordinator
