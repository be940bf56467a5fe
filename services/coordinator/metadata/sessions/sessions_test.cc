// Opening, signs of life, eviction and closing.
#include "libs/base/test_util/status_matchers.h"
#include "libs/wire/compact_map.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class SessionsTest : public ::testing::Test {
 protected:
  SessionsTest() { cluster_.JoinShards(); }
  // Segments in which the session is open, closed.
  int OpenIn(uint64_t session) {
    return cluster_.CountSegments([=](const FakeSegment& s) { return s.open.contains(session); });
  }
  int ClosedIn(uint64_t session) {
    return cluster_.CountSegments([=](const FakeSegment& s) { return s.closed.contains(session); });
  }
  // A segment of this shard.
  uint32_t SegmentOf(const std::string& name) {
    uint32_t segment = 0;
    while (!cluster_.shards().at(name).IsPrimaryOf(segment)) ++segment;
    return segment;
  }

  TestCluster cluster_{2};
};

// -- opening --

TEST_F(SessionsTest, ASessionIsHandedOutWhenItIsOpenEverywhere) {
  const auto opening = cluster_.OpenSession("ctr", 7);
  EXPECT_FALSE(opening.answered());
  cluster_.Run(absl::Milliseconds(10));
  ASSERT_THAT(opening.status(), IsOk());
  EXPECT_EQ(opening->job(), 1u);
  EXPECT_EQ(opening->session(), 1u);
  EXPECT_EQ(opening->map().version(), 1u);
  EXPECT_EQ(opening->feature_level(), kFeatureLevel);
  EXPECT_EQ(opening->keep_alive_ms(), 1000u);
  EXPECT_EQ(opening->session_timeout_ms(), 10'000u);
  EXPECT_EQ(OpenIn(1), 8);
}

TEST_F(SessionsTest, AClientThatTakesItIsSentTheMapInItsCompactForm) {
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job("ctr");
  request.set_client("a test");
  request.set_nonce(7);
  request.set_takes_compact_map(true);
  Pending<v1::OpenSessionReply> opening;
  opening.ticket = cluster_.core().OpenSession(request, absl::InfiniteFuture(), opening.done());
  cluster_.Run(absl::Milliseconds(10));
  ASSERT_THAT(opening.status(), IsOk());
  EXPECT_FALSE(opening->has_map());
  v1::CompactMap compact;
  ASSERT_TRUE(compact.ParseFromString(opening->compact_map()));
  v1::Map newest;
  const auto watch = cluster_.core().WatchMap(0, [&](const auto& map) { newest = *map; });
  ASSERT_THAT(watch, IsOk());
  cluster_.core().Unwatch(*watch);
  EXPECT_EQ(wire::Expand(compact)->SerializeAsString(), newest.SerializeAsString());
}

TEST_F(SessionsTest, IdsAreNeverReusedAndJobsAreFoundByName) {
  EXPECT_EQ(cluster_.Opened("ctr"), 1u);
  const auto second = cluster_.OpenSession("other", 8);
  const auto third = cluster_.OpenSession("ctr", 9);
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_EQ(second->job(), 2u);
  EXPECT_EQ(third->job(), 1u);
  EXPECT_EQ(third->session(), 3u);
  const auto closing = cluster_.CloseSession(3);
  cluster_.Await(closing);
  ASSERT_THAT(closing.status(), IsOk());
  EXPECT_EQ(cluster_.Opened("ctr"), 4u);
}

TEST_F(SessionsTest, RepeatingTheCallReturnsTheSameSession) {
  const auto first = cluster_.OpenSession("ctr", 7);
  const auto meanwhile = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Milliseconds(50));
  const auto later = cluster_.OpenSession("ctr", 7);
  for (const auto& reply : {first, meanwhile, later}) {
    ASSERT_THAT(reply.status(), IsOk());
    EXPECT_EQ(reply->session(), 1u);
  }
  const auto elsewhere = cluster_.OpenSession("other", 7);
  EXPECT_THAT(elsewhere.status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("nonce")));
}

TEST_F(SessionsTest, RefusesInvalidRequests) {
  EXPECT_THAT(cluster_.OpenSession("", 7).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("job")));
  EXPECT_THAT(cluster_.OpenSession("a b", 7).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("job")));
  EXPECT_THAT(cluster_.OpenSession(std::string(1000, 'x'), 7).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(cluster_.OpenSession("ctr", 0).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("nonce")));
}

TEST_F(SessionsTest, AShardThatAnswersFewerSegmentsIsAskedAgain) {
  FakeShard& shard = cluster_.shards().at("shard-0");
  shard.withheld = {SegmentOf("shard-0")};
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(opening.answered());
  EXPECT_GT(shard.changes.size(), 3u);
  EXPECT_LT(shard.changes.size(), 12u) << "the pauses grow";
  EXPECT_EQ(cluster_.shards().at("shard-1").changes.size(), 1u) << "who has answered is left alone";
  shard.withheld.clear();
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST_F(SessionsTest, ASegmentThatMovesIsInNeitherAnswerAndIsAskedForAgain) {
  // It leaves shard-0 before that is asked, and has not arrived at shard-1 when that is.
  const uint32_t moving = SegmentOf("shard-0");
  for (const std::string name : {"shard-0", "shard-1"}) {
    v1::ChangeReply reply;
    reply.set_map_version(1);
    for (uint32_t s = 0; s < 8; ++s) {
      if (cluster_.shards().at(name).IsPrimaryOf(s) && s != moving) reply.add_committed(s);
    }
    cluster_.shards().at(name).scripted.push_back(reply);
  }
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.shards().Deliver();
  EXPECT_FALSE(opening.answered());
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST_F(SessionsTest, AnyAnswerThatNamesASegmentCounts) {
  // A shard that says the record is committed is primary in its own, newer map.
  cluster_.shards().at("shard-0").up = false;
  v1::ChangeReply all;
  all.set_map_version(1);
  for (uint32_t s = 0; s < 8; ++s) all.add_committed(s);
  cluster_.shards().at("shard-1").scripted.push_back(all);
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST_F(SessionsTest, AShardThatIsBehindIsToldTheMapAtOnce) {
  FakeShard& shard = cluster_.shards().at("shard-1");
  cluster_.Run(absl::Seconds(1));
  shard.map.Clear();
  cluster_.beating = false;
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Milliseconds(200));
  EXPECT_THAT(opening.status(), IsOk());
}

// A shard does nothing for a caller with an older map than its own.
TEST_F(SessionsTest, ACallThatAMapHasOvertakenIsSentAgainAtOnce) {
  const auto opening = cluster_.OpenSession("ctr", 7);
  ASSERT_THAT(cluster_.shards().Join(cluster_.core(), "another"), IsOk());
  v1::ChangeReply overtaken;
  overtaken.set_map_version(cluster_.core().Status().map_version());
  overtaken.add_waits("the call is of map version 1");
  for (const std::string name : {"shard-0", "shard-1"}) {
    cluster_.shards().at(name).scripted.push_back(overtaken);
  }
  for (int i = 0; i < 3; ++i) cluster_.shards().Deliver();
  EXPECT_THAT(opening.status(), IsOk()) << "no time has passed";
  EXPECT_GT(cluster_.shards().at("shard-0").changes.back().map_version(),
            cluster_.shards().at("shard-0").changes.front().map_version());
}

TEST_F(SessionsTest, AnAnswerByANewerMapThanTheStoresShowsThatItIsBehind) {
  v1::ChangeReply ahead;
  ahead.set_map_version(99);
  cluster_.shards().at("shard-0").scripted.push_back(ahead);
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.shards().Deliver();
  EXPECT_THAT(cluster_.OpenSession("ctr", 8).status(),
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("older than its cluster"), HasSubstr("map version 99"))));
  const size_t calls = cluster_.shards().at("shard-0").changes.size();
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kUnavailable, HasSubstr("older than its cluster")));
  EXPECT_LE(cluster_.shards().at("shard-0").changes.size(), calls + 1);
}

TEST_F(SessionsTest, TheDeadlineNamesTheShardAndTheSessionIsClosed) {
  cluster_.shards().at("shard-1").up = false;
  const auto opening = cluster_.OpenSession("ctr", 7, 5000);
  cluster_.Run(absl::Milliseconds(4900));
  EXPECT_FALSE(opening.answered());
  cluster_.Run(absl::Milliseconds(200));
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kUnavailable,
                                         AllOf(HasSubstr("session 1 of job 'ctr'"), HasSubstr("shard-1"),
                                               HasSubstr("silent for"), HasSubstr("connection refused"),
                                               ::testing::Not(HasSubstr("shard-0")))));
  EXPECT_EQ(cluster_.StateOf(1), "closing");
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(1), "closed");
  EXPECT_EQ(ClosedIn(1), 8);
}

TEST_F(SessionsTest, ARepeatedCallMayExpireWithoutClosingTheSession) {
  cluster_.shards().at("shard-1").up = false;
  const auto shorter = cluster_.OpenSession("ctr", 7, 1000);
  const auto longer = cluster_.OpenSession("ctr", 7, 9000);
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(shorter.status(), StatusIs(StatusCode::kUnavailable));
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(longer.status(), IsOk());
}

TEST_F(SessionsTest, TheEarlierOfTwoDeadlinesCounts) {
  cluster_.shards().at("shard-1").up = false;
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job("ctr");
  request.set_nonce(7);
  Pending<v1::OpenSessionReply> none;
  cluster_.core().OpenSession(request, absl::InfiniteFuture(), none.done());
  request.set_nonce(8);
  Pending<v1::OpenSessionReply> given;
  cluster_.core().OpenSession(request, cluster_.clock().now + absl::Seconds(1), given.done());
  cluster_.Run(absl::Seconds(2));
  EXPECT_TRUE(given.answered());
  EXPECT_FALSE(none.answered());
  cluster_.Run(absl::Seconds(30));
  EXPECT_TRUE(none.answered()) << "every wait has a deadline";
}

TEST(OpeningTest, WaitsForTheFirstMap) {
  TestCluster cluster(2);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  const auto patient = cluster.OpenSession("ctr", 7);
  const auto hasty = cluster.OpenSession("ctr", 8, 1000);
  cluster.Run(absl::Seconds(2));
  EXPECT_THAT(hasty.status(), StatusIs(StatusCode::kUnavailable, HasSubstr("1 of 2 shards have joined")));
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.Run(absl::Milliseconds(100));
  EXPECT_THAT(patient.status(), IsOk());
  EXPECT_EQ(patient->session(), 1u);
}

TEST(OpeningTest, IsBounded) {
  Options options{.ring_bits = 3};
  options.limits.sessions = 2;
  options.limits.jobs = 1;
  TestCluster cluster(2, options);
  cluster.JoinShards();
  EXPECT_NE(cluster.Opened("ctr"), 0u);
  EXPECT_THAT(cluster.OpenSession("other", 8).status(),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("jobs")));
  EXPECT_NE(cluster.Opened("ctr"), 0u);
  EXPECT_THAT(cluster.OpenSession("ctr", 9).status(),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("sessions")));
  cluster.Await(cluster.CloseSession(1));
  EXPECT_NE(cluster.Opened("ctr"), 0u);
}

// -- the floor --

TEST_F(SessionsTest, TheFloorIsBelowTheOldestSessionThatIsNotClosed) {
  ASSERT_EQ(cluster_.Opened("ctr"), 1u);
  ASSERT_EQ(cluster_.Opened("ctr"), 2u);
  ASSERT_EQ(cluster_.Opened("ctr"), 3u);
  const auto floor_of_next = [&] {
    const uint64_t next = cluster_.Opened("ctr");
    const uint64_t floor = cluster_.shards().at("shard-0").changes.back().open().closed_floor();
    return std::pair(next, floor);
  };
  cluster_.Await(cluster_.CloseSession(2));
  EXPECT_EQ(floor_of_next(), std::pair(uint64_t{4}, uint64_t{0}));
  cluster_.Await(cluster_.CloseSession(1));
  EXPECT_EQ(floor_of_next(), std::pair(uint64_t{5}, uint64_t{2}));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(cluster_.KeepAlive(1),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("session 1 was closed")));
  EXPECT_THAT(cluster_.KeepAlive(3), IsOk());
}

TEST_F(SessionsTest, ALaterSessionThanTheStoreKnowsIsNotDeniedBeforeTheShardsWereHeardOf) {
  const uint64_t later = cluster_.Opened("ctr") + 1;
  EXPECT_THAT(cluster_.KeepAlive(later),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("never opened")));
  cluster_.beating = false;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(cluster_.KeepAlive(later), StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of")));
  cluster_.beating = true;
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(cluster_.KeepAlive(later),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("never opened")));
}

// The store is an older copy, in which the session is not as far as it came, and the table is missing.
TEST_F(SessionsTest, NothingIsDeniedForGoodBeforeTheShardsWereHeardOf) {
  const uint64_t session = cluster_.Opened("ctr");
  const auto opened = cluster_.StoreCopy();
  cluster_.Await(cluster_.JoinJob(session));
  ASSERT_THAT(cluster_.OpenTable(session, "w", SparseSchema()), IsOk());
  cluster_.Stop();
  cluster_.PutStore(opened);
  cluster_.beating = false;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const auto unsure = StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of"));
  EXPECT_THAT(cluster_.FinishWorker(session).status(), unsure);
  EXPECT_THAT(cluster_.OpenTable(session, "w", SparseSchema(), /*create=*/false), unsure);
  EXPECT_THAT(cluster_.DropTable(session, 1).status(), unsure);
  EXPECT_THAT(cluster_.DeleteJob("later").status(), unsure);
}

// -- silence --

TEST_F(SessionsTest, SilenceBeyondTheLimitEvicts) {
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Milliseconds(10));
  ASSERT_THAT(opening.status(), IsOk());
  cluster_.Run(absl::Milliseconds(9900));
  EXPECT_EQ(cluster_.StateOf(1), "open");
  cluster_.Run(absl::Milliseconds(700));
  EXPECT_EQ(cluster_.StateOf(1), "closed");
  EXPECT_EQ(ClosedIn(1), 8);
  EXPECT_THAT(cluster_.KeepAlive(1),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("session 1 was evicted: silent for 10."), HasSubstr("limit 10.0 s"),
                             HasSubstr("open a new session"))));
  EXPECT_THAT(cluster_.shards().at("shard-0").changes.back().evict().reason(), HasSubstr("silent for"));
}

TEST_F(SessionsTest, SignsOfLifePreventIt) {
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.Run(absl::Seconds(60));
  EXPECT_EQ(cluster_.StateOf(session), "open");
}

TEST_F(SessionsTest, AnEvictedSessionIsClosingUntilItIsClosedEverywhere) {
  ASSERT_NE(cluster_.Opened("ctr"), 0u);
  cluster_.kept_alive.clear();
  cluster_.shards().at("shard-1").up = false;
  cluster_.Run(absl::Seconds(15));
  EXPECT_EQ(cluster_.StateOf(1), "closing");
  EXPECT_THAT(cluster_.KeepAlive(1), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("evicted")));
  EXPECT_THAT(cluster_.Problems(),
              Contains(AllOf(HasSubstr("session 1"), HasSubstr("closing"), HasSubstr("shard-1"))));
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(1), "closed");
}

TEST_F(SessionsTest, AClientThatWaitsForTheCoordinatorIsNotSilent) {
  cluster_.shards().at("shard-1").up = false;
  const auto opening = cluster_.OpenSession("ctr", 7, 25'000);
  cluster_.Run(absl::Seconds(20));
  EXPECT_EQ(cluster_.StateOf(1), "opening");
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST_F(SessionsTest, AClientThatGaveUpItsCallIsSilentFromThenOn) {
  cluster_.shards().at("shard-1").up = false;
  const auto opening = cluster_.OpenSession("ctr", 7, 60'000);
  cluster_.Run(absl::Seconds(5));
  cluster_.core().Abandon(opening.ticket);
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kCancelled));
  cluster_.core().Abandon(opening.ticket);  // no harm
  cluster_.Run(absl::Seconds(9));
  EXPECT_EQ(cluster_.StateOf(1), "opening") << "it may ask again";
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(1), "closing");
}

TEST_F(SessionsTest, ARestartedCoordinatorCountsSilenceFromItsStart) {
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.kept_alive.clear();
  cluster_.Run(absl::Seconds(9));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(9));
  EXPECT_EQ(cluster_.StateOf(session), "open");
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(session), "closed");
}

TEST_F(SessionsTest, ACoordinatorThatWasPausedCountsSilenceAfresh) {
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.kept_alive.clear();
  cluster_.Run(absl::Seconds(9));
  cluster_.clock().now += absl::Seconds(30);  // nothing ran
  cluster_.Run(absl::Seconds(9));
  EXPECT_EQ(cluster_.StateOf(session), "open");
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(session), "closed");
}

// -- closing --

TEST_F(SessionsTest, ClosingIsDoneEverywhereAndMayBeRepeated) {
  const uint64_t session = cluster_.Opened("ctr");
  const auto first = cluster_.CloseSession(session);
  const auto meanwhile = cluster_.CloseSession(session);
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_THAT(first.status(), IsOk());
  EXPECT_THAT(meanwhile.status(), IsOk());
  EXPECT_EQ(ClosedIn(session), 8);
  EXPECT_THAT(cluster_.CloseSession(session).status(), IsOk());
  EXPECT_THAT(cluster_.KeepAlive(session),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was closed")));
  EXPECT_THAT(cluster_.CloseSession(99).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("session 99 was never opened")));
}

TEST_F(SessionsTest, TheDeadlineOfAClosingEndsTheWaitOnly) {
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.shards().at("shard-0").up = false;
  const auto closing = cluster_.CloseSession(session, 1000);
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(closing.status(), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("shard-0")));
  cluster_.shards().at("shard-0").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.StateOf(session), "closed");
}

TEST_F(SessionsTest, ClosingWhileOpeningAnswersBoth) {
  cluster_.shards().at("shard-0").up = false;
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Milliseconds(100));
  const auto closing = cluster_.CloseSession(1);
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kFailedPrecondition));
  cluster_.shards().at("shard-0").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(closing.status(), IsOk());
  const auto again = cluster_.OpenSession("ctr", 7);
  cluster_.Await(again);
  EXPECT_EQ(again->session(), 2u) << "what has ended is not handed out";
}

// -- the store fails, or the coordinator ends --

TEST_F(SessionsTest, AStoreThatFailsIsNamedAndRecovers) {
  const uint64_t session = cluster_.Opened("ctr");
  cluster_.store().broken = true;
  EXPECT_THAT(cluster_.OpenSession("ctr", 7).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("the disk does not answer")));
  EXPECT_THAT(cluster_.Problems(), Contains(HasSubstr("store fails")));
  EXPECT_THAT(cluster_.KeepAlive(session), IsOk());
  cluster_.store().broken = false;
  EXPECT_NE(cluster_.Opened("ctr"), 0u);
  EXPECT_THAT(cluster_.Problems(), ::testing::IsEmpty());
}

TEST_F(SessionsTest, ACommitThatTheStoreRefusedIsMadeLater) {
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.store().broken = true;
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(OpenIn(1), 8);
  EXPECT_FALSE(opening.answered());
  cluster_.store().broken = false;
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST_F(SessionsTest, StoppingAnswersEverythingThatWaits) {
  cluster_.shards().at("shard-0").up = false;
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.core().Stop();
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kUnavailable, HasSubstr("stopping")));
  EXPECT_THAT(cluster_.OpenSession("ctr", 8).status(), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(cluster_.KeepAlive(1), StatusIs(StatusCode::kUnavailable));
  cluster_.shards().at("shard-0").up = true;
  cluster_.shards().Deliver();
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(cluster_.StateOf(1), "open") << "the intent was taken up again";
}

TEST_F(SessionsTest, CallsUnderWayAtAShardAreBounded) {
  Options options{.ring_bits = 3};
  options.limits.calls_per_shard = 4;
  TestCluster cluster(2, options);
  cluster.JoinShards();
  std::vector<Pending<v1::OpenSessionReply>> all;
  for (uint64_t nonce = 1; nonce <= 50; ++nonce) all.push_back(cluster.OpenSession("ctr", nonce));
  EXPECT_EQ(cluster.shards().CallsUnderWay(), 8u);
  cluster.Run(absl::Milliseconds(100));
  for (const auto& opening : all) EXPECT_THAT(opening.status(), IsOk());
}

}  // namespace
}  // namespace paceline::coordinator
