// Shards, the map, lost segments, and the messages about them.
#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// How many segments each shard is primary of, by the map.
std::map<uint32_t, int> Primaries(const v1::Map& map) {
  std::map<uint32_t, int> count;
  for (const auto& segment : map.segments()) count[segment.primary().shard()] += 1;
  return count;
}

TEST(MembershipTest, TheFirstMapIsMadeWhenAllShardsHaveJoined) {
  TestCluster cluster(3);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  EXPECT_EQ(cluster.core().Status().map_version(), 0u);
  EXPECT_THAT(cluster.Problems(), Contains(HasSubstr("2 of 3 shards have joined")));
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-2"), IsOk());
  EXPECT_EQ(cluster.core().Status().map_version(), 1u);
  cluster.shards().Deliver();
  for (auto& [name, shard] : cluster.shards().all()) {
    EXPECT_EQ(shard.installs, 1) << name;
    ASSERT_EQ(shard.map.version(), 1u) << name;
    EXPECT_EQ(shard.map.segments_size(), 8);
    for (const auto& [id, count] : Primaries(shard.map)) EXPECT_THAT(count, ::testing::AnyOf(2, 3)) << id;
    for (const auto& segment : shard.map.segments()) EXPECT_EQ(segment.epoch(), 1u);
  }
  EXPECT_THAT(cluster.Problems(), IsEmpty());
}

TEST(MembershipTest, ShardsAreNumberedInTheOrderOfTheirJoining) {
  TestCluster cluster(3);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "z"), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "a"), IsOk());
  EXPECT_EQ(cluster.shards().at("z").id, 0u);
  EXPECT_EQ(cluster.shards().at("a").id, 1u);
  EXPECT_NE(cluster.shards().at("a").incarnation, cluster.shards().at("z").incarnation);
}

TEST(MembershipTest, EveryoneIsToldWhichClusterThisIs) {
  TestCluster cluster(1, {.ring_bits = 3, .new_cluster = 77});
  cluster.JoinShards();
  auto& shard = cluster.shards().at("shard-0");
  EXPECT_EQ(cluster.shards().JoinAgain(cluster.core(), "shard-0")->cluster(), 77u);
  EXPECT_EQ(shard.map.cluster(), 77u);
  cluster.options.new_cluster = 78;
  ASSERT_THAT(cluster.Restart(), IsOk());
  cluster.Run(absl::Seconds(1));
  (void)cluster.Opened("ctr");
  ASSERT_FALSE(shard.changes.empty());
  EXPECT_EQ(shard.changes.back().cluster(), 77u) << "for good";
  EXPECT_EQ(shard.changes.back().target().shard(), shard.id);
  EXPECT_EQ(shard.changes.back().target().incarnation(), shard.incarnation);
  v1::BeatRequest beat;
  beat.set_shard(shard.id);
  beat.set_incarnation(shard.incarnation);
  EXPECT_THAT(cluster.core().Beat(beat), IsOk()) << "one that does not say";
  beat.set_cluster(5);
  EXPECT_THAT(cluster.core().Beat(beat), StatusIs(StatusCode::kFailedPrecondition,
                                                  AllOf(HasSubstr("cluster 5"), HasSubstr("cluster 77"))));
}

TEST(MembershipTest, JoiningAgainWithTheSameNonceChangesNothing) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const uint64_t incarnation = cluster.shards().at("shard-0").incarnation;
  const int commits = cluster.store().commits();
  const auto reply = cluster.shards().JoinAgain(cluster.core(), "shard-0");
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->incarnation(), incarnation);
  EXPECT_EQ(cluster.store().commits(), commits);
}

TEST(MembershipTest, RefusesInvalidRequests) {
  TestCluster cluster(2);
  v1::JoinClusterRequest request;
  request.set_name("shard-0");
  request.set_address("host:1");
  request.set_nonce(1);
  EXPECT_THAT(cluster.core().JoinCluster(request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("feature_level")));
  request.set_feature_level(7);
  request.set_name("no spaces");
  EXPECT_THAT(cluster.core().JoinCluster(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("name")));
  request.set_name("shard-0");
  request.set_address("");
  EXPECT_THAT(cluster.core().JoinCluster(request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("address")));
  request.set_address("host:1");
  request.set_nonce(0);
  EXPECT_THAT(cluster.core().JoinCluster(request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("nonce")));
  request.set_nonce(1);
  const auto reply = cluster.core().JoinCluster(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->feature_level(), kFeatureLevel) << "a newer shard is answered with the level both speak";
}

TEST(MembershipTest, TheMapIsOfTheLevelThatAllShardsSpeak) {
  TestCluster cluster(2);
  cluster.JoinShards();
  EXPECT_EQ(cluster.shards().at("shard-1").map.feature_level(), kFeatureLevel);
}

TEST(MembershipTest, TheLevelRisesWhenTheLastShardSpeaksItAndNeverFalls) {
  TestCluster cluster(2);
  cluster.shards().level = 1;
  cluster.JoinShards();
  EXPECT_EQ(cluster.shards().at("shard-1").map.feature_level(), 1u);
  EXPECT_THAT(cluster.Problems(), Contains(HasSubstr("older feature level")));
  cluster.shards().level = kFeatureLevel;
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  cluster.Run(absl::Seconds(1));
  EXPECT_EQ(cluster.shards().at("shard-1").map.feature_level(), 1u) << "shard-1 could not read what is newer";
  ASSERT_THAT(cluster.Restart(), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.Run(absl::Seconds(2));
  EXPECT_EQ(cluster.shards().at("shard-0").map.feature_level(), kFeatureLevel);
  EXPECT_THAT(cluster.Problems(), IsEmpty());
  cluster.shards().level = 1;
  EXPECT_THAT(cluster.shards().Join(cluster.core(), "shard-1"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("records of level 2")));
}

TEST(MembershipTest, ALaterShardOwnsNothing) {
  TestCluster cluster(2);
  cluster.JoinShards();
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-2"), IsOk());
  cluster.shards().Deliver();
  const FakeShard& late = cluster.shards().at("shard-2");
  EXPECT_EQ(late.map.version(), 2u);
  EXPECT_EQ(late.map.shards_size(), 3);
  EXPECT_EQ(Primaries(late.map).count(late.id), 0u);
  EXPECT_EQ(cluster.core().Status().shards_size(), 3);
}

TEST(MembershipTest, AShardThatIsBehindIsToldAgain) {
  TestCluster cluster(2);
  cluster.JoinShards();
  cluster.Run(absl::Seconds(2));
  FakeShard& shard = cluster.shards().at("shard-1");
  EXPECT_EQ(shard.installs, 1) << "nothing is sent to who is up to date";
  shard.map.Clear();
  cluster.Run(absl::Seconds(2));
  EXPECT_EQ(shard.installs, 2);
  EXPECT_EQ(shard.map.version(), 1u);
}

TEST(MembershipTest, AnInstallThatFailsIsRepeated) {
  TestCluster cluster(2);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.shards().at("shard-1").up = false;
  cluster.Run(absl::Milliseconds(500));
  EXPECT_THAT(cluster.Problems(), Not(Contains(HasSubstr("connection refused"))))
      << "it may not know yet that it has joined";
  ASSERT_THAT(cluster.shards().Beat(cluster.core(), "shard-1"), IsOk());
  cluster.Run(absl::Milliseconds(1500));
  EXPECT_THAT(cluster.Problems(), Contains(AllOf(HasSubstr("shard-1"), HasSubstr("connection refused"))));
  cluster.shards().at("shard-1").up = true;
  cluster.Run(absl::Seconds(1));
  EXPECT_EQ(cluster.shards().at("shard-1").map.version(), 1u);
}

// -- beats --

TEST(MembershipTest, SilenceIsSeenAndEndsWithABeat) {
  TestCluster cluster(2);
  cluster.JoinShards();
  cluster.Run(absl::Seconds(1));
  EXPECT_TRUE(cluster.core().Status().shards(1).alive());
  cluster.shards().at("shard-1").up = false;
  cluster.Run(absl::Seconds(5));
  const v1::StatusReply status = cluster.core().Status();
  EXPECT_TRUE(status.shards(0).alive());
  EXPECT_FALSE(status.shards(1).alive());
  EXPECT_GE(status.shards(1).silent_ms(), 4000u);
  EXPECT_THAT(cluster.Problems(), Contains(AllOf(HasSubstr("shard-1"), HasSubstr("silent for"))));
  EXPECT_EQ(cluster.core().gauges().shards_alive, 1u);
  cluster.shards().at("shard-1").up = true;
  cluster.Run(absl::Seconds(1));
  EXPECT_THAT(cluster.Problems(), IsEmpty());
}

TEST(MembershipTest, ABeatOfASupersededStartIsTurnedAway) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const FakeShard old = cluster.shards().at("shard-0");
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  v1::BeatRequest beat;
  beat.set_shard(old.id);
  beat.set_incarnation(old.incarnation);
  EXPECT_THAT(cluster.core().Beat(beat), StatusIs(StatusCode::kFailedPrecondition,
                                                  AllOf(HasSubstr("superseded"), HasSubstr("must end"))));
  beat.set_incarnation(99);
  EXPECT_THAT(cluster.core().Beat(beat), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--data-dir")));
  beat.set_shard(9);
  EXPECT_THAT(cluster.core().Beat(beat), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("no shard 9")));
}

TEST(MembershipTest, ALateRepetitionOfAnEarlierStartDoesNotEndTheNewerOne) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const FakeShard old = cluster.shards().at("shard-0");
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  const FakeShard newer = cluster.shards().at("shard-0");
  cluster.shards().at("shard-0") = old;
  EXPECT_THAT(cluster.shards().JoinAgain(cluster.core(), "shard-0").status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("newer start")));
  cluster.shards().at("shard-0") = newer;
  EXPECT_THAT(cluster.shards().Beat(cluster.core(), "shard-0"), IsOk());
}

// -- restarts of shards --

TEST(MembershipTest, ARestartBeforeAnySessionLosesNothing) {
  TestCluster cluster(2);
  cluster.JoinShards();
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.shards().Deliver();
  const FakeShard& shard = cluster.shards().at("shard-1");
  EXPECT_EQ(shard.map.version(), 2u);
  for (const auto& segment : shard.map.segments()) {
    const bool its = segment.primary().shard() == shard.id;
    EXPECT_EQ(segment.epoch(), its ? 2u : 1u);
    EXPECT_EQ(segment.primary().incarnation() == shard.incarnation, its);
  }
  EXPECT_THAT(cluster.Problems(), IsEmpty());
  EXPECT_NE(cluster.Opened("ctr"), 0u);
}

TEST(MembershipTest, ARestartBeforeTheFirstMapCounts) {
  TestCluster cluster(2);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.shards().Deliver();
  const FakeShard& shard = cluster.shards().at("shard-0");
  EXPECT_EQ(shard.map.version(), 1u);
  EXPECT_TRUE(shard.IsPrimaryOf(0) || cluster.shards().at("shard-1").IsPrimaryOf(0));
  EXPECT_EQ(cluster.core().gauges().segments_lost, 0u);
}

TEST(MembershipTest, ARestartAfterASessionLosesTheShardsSegments) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const uint64_t session = cluster.Opened("ctr");
  ASSERT_NE(session, 0u);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.Run(absl::Milliseconds(100));
  const FakeShard& shard = cluster.shards().at("shard-1");
  EXPECT_EQ(shard.map.version(), 2u) << "the new address is told";
  EXPECT_FALSE(std::any_of(shard.map.segments().begin(), shard.map.segments().end(),
                           [&](const auto& s) { return s.primary().incarnation() == shard.incarnation; }));
  EXPECT_THAT(
      cluster.Problems(),
      Contains(AllOf(HasSubstr("acknowledged data of segments"), HasSubstr("earlier start of shard-1"),
                     HasSubstr("paceline recover --accept-loss"), HasSubstr("last saved model"))));
  EXPECT_EQ(cluster.core().gauges().segments_lost, 4u);
  // Requests that can never succeed are answered at once.
  const auto opening = cluster.OpenSession("ctr", 7);
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kDataLoss, HasSubstr("paceline recover --accept-loss")));
  const auto joining = cluster.JoinJob(session);
  EXPECT_THAT(joining.status(), StatusIs(StatusCode::kDataLoss));
  const auto closing = cluster.CloseSession(session);
  cluster.Run(absl::Seconds(1));
  EXPECT_THAT(closing.status(), StatusIs(StatusCode::kDataLoss));
  EXPECT_EQ(cluster.StateOf(session), "closing");
}

// One segment of the shard answers no change for as long as it is withheld, so no session becomes open.
FakeShard& WithholdOne(FakeShard& shard) {
  for (uint32_t s = 0; shard.withheld.empty(); ++s) {
    if (shard.IsPrimaryOf(s)) shard.withheld.insert(s);
  }
  return shard;
}

TEST(MembershipTest, AnOpeningSessionIsOpenedAgainInSegmentsThatBeginEmpty) {
  TestCluster cluster(2);
  cluster.JoinShards();
  FakeShard& slow = WithholdOne(cluster.shards().at("shard-0"));
  const auto opening = cluster.OpenSession("ctr", 7);
  cluster.Run(absl::Seconds(1));
  EXPECT_EQ(cluster.CountSegments([](const FakeSegment& s) { return !s.open.empty(); }), 7);
  ASSERT_FALSE(opening.answered());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  slow.withheld.clear();
  cluster.Run(absl::Seconds(1));
  EXPECT_THAT(opening.status(), IsOk()) << "nobody was told of it, so nothing can be lost";
  EXPECT_EQ(cluster.CountSegments([](const FakeSegment& s) { return !s.open.empty(); }), 8);
  const FakeShard& shard = cluster.shards().at("shard-1");
  for (const auto& segment : shard.map.segments()) {
    const bool its = segment.primary().shard() == shard.id;
    EXPECT_EQ(segment.emptied_in(), its ? 2u : 0u) << "late calls and what its disk has do not count";
  }
}

TEST(MembershipTest, ARestartedCoordinatorKnowsThatASessionIsStillBeingOpened) {
  TestCluster cluster(2);
  cluster.JoinShards();
  cluster.shards().at("shard-1").up = false;
  const auto opening = cluster.OpenSession("ctr", 7);
  cluster.Run(absl::Seconds(1));
  ASSERT_THAT(cluster.Restart(), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  cluster.Run(absl::Seconds(1));
  EXPECT_THAT(cluster.Problems(), IsEmpty());
  EXPECT_EQ(cluster.StateOf(1), "open");
}

TEST(MembershipTest, ASessionThatWasOpenMayHaveDataEvenWhenItIsForgotten) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const auto closing = cluster.CloseSession(cluster.Opened("ctr"));
  cluster.Await(closing);
  ASSERT_THAT(closing.status(), IsOk());
  cluster.Run(absl::Minutes(2));
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  EXPECT_GE(cluster.core().gauges().segments_lost, 1u);
}

TEST(MembershipTest, ASessionThatWasNeverOpenHasNoDataEvenWhenItIsClosed) {
  TestCluster cluster(2);
  cluster.JoinShards();
  FakeShard& slow = WithholdOne(cluster.shards().at("shard-0"));
  const auto opening = cluster.OpenSession("ctr", 7);
  cluster.Run(absl::Minutes(2));
  EXPECT_FALSE(opening.status().ok());
  slow.withheld.clear();
  cluster.Run(absl::Seconds(1));
  ASSERT_EQ(cluster.StateOf(1), "closed");
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.Run(absl::Seconds(1));
  EXPECT_EQ(cluster.core().gauges().segments_lost, 0u) << "nobody was told of it, so nothing can be lost";
  EXPECT_THAT(cluster.Problems(), IsEmpty());
}

TEST(MembershipTest, AShardThatKnowsALaterCatalogueShowsThatTheStoreIsOld) {
  TestCluster cluster(2, {.ring_bits = 3, .new_cluster = 77});
  cluster.JoinShards();
  FakeShard& shard = cluster.shards().at("shard-1");
  shard.says.set_cluster(77);
  shard.catalogue.set_version(shard.catalogue.version() + 1);
  EXPECT_THAT(cluster.shards().Beat(cluster.core(), "shard-1"),
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("older than its cluster"), HasSubstr("catalogue version"))));
}

TEST(MembershipTest, ASessionBeingOpenedLearnsOfTheLoss) {
  TestCluster cluster(2);
  cluster.JoinShards();
  ASSERT_NE(cluster.Opened("other"), 0u);
  cluster.shards().at("shard-1").up = false;
  const auto opening = cluster.OpenSession("ctr", 7);
  cluster.Run(absl::Seconds(1));
  EXPECT_FALSE(opening.answered());
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-1"), IsOk());
  cluster.Run(absl::Seconds(1));
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kDataLoss, HasSubstr("shard-1")));
}

// -- watchers --

TEST(MapWatchersTest, HearTheNewestMapAtOnceAndEveryLaterOne) {
  TestCluster cluster(2);
  std::vector<uint64_t> heard;
  const auto note = [&heard](const std::shared_ptr<const v1::Map>& map) { heard.push_back(map->version()); };
  ASSERT_THAT(cluster.core().WatchMap(0, note), IsOk());
  EXPECT_THAT(heard, IsEmpty()) << "there is none yet";
  cluster.JoinShards();
  EXPECT_THAT(heard, ::testing::ElementsAre(1));
  std::vector<uint64_t> late;
  const auto id = cluster.core().WatchMap(0, [&late](const auto& map) { late.push_back(map->version()); });
  EXPECT_THAT(late, ::testing::ElementsAre(1));
  std::vector<uint64_t> knowing;
  ASSERT_THAT(cluster.core().WatchMap(1, [&knowing](const auto& map) { knowing.push_back(map->version()); }),
              IsOk());
  EXPECT_THAT(knowing, IsEmpty());
  cluster.core().Unwatch(*id);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  EXPECT_THAT(heard, ::testing::ElementsAre(1, 2));
  EXPECT_THAT(knowing, ::testing::ElementsAre(2));
  EXPECT_THAT(late, ::testing::ElementsAre(1)) << "it is told no more";
}

TEST(MapWatchersTest, AreBounded) {
  Options options{.ring_bits = 3};
  options.limits.watchers = 1;
  TestCluster cluster(2, options);
  ASSERT_THAT(cluster.core().WatchMap(0, [](const auto&) {}), IsOk());
  EXPECT_THAT(cluster.core().WatchMap(0, [](const auto&) {}), StatusIs(StatusCode::kResourceExhausted));
}

// -- restarts of the coordinator --

TEST(MembershipTest, ARestartedCoordinatorKnowsShardsAndMap) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const v1::Map before = cluster.shards().at("shard-0").map;
  ASSERT_THAT(cluster.Restart(), IsOk());
  const v1::StatusReply status = cluster.core().Status();
  EXPECT_EQ(status.map_version(), 1u);
  EXPECT_EQ(status.shards_size(), 2);
  EXPECT_TRUE(status.shards(0).alive()) << "silence counts from when the coordinator began to listen";
  EXPECT_THAT(cluster.shards().Beat(cluster.core(), "shard-0"), IsOk());
  v1::Map now;
  ASSERT_THAT(cluster.core().WatchMap(0, [&](const auto& map) { now = *map; }), IsOk());
  EXPECT_EQ(now.SerializeAsString(), before.SerializeAsString());
}

TEST(MembershipTest, AnotherRingIsRefused) {
  TestCluster cluster(2);
  cluster.JoinShards();
  cluster.options.ring_bits = 4;
  EXPECT_THAT(cluster.Restart(),
              StatusIs(StatusCode::kFailedPrecondition, AllOf(HasSubstr("4"), HasSubstr("3"))));
}

TEST(MembershipTest, FewerShardsWantedAfterARestartIsEnough) {
  TestCluster cluster(3);
  ASSERT_THAT(cluster.shards().Join(cluster.core(), "shard-0"), IsOk());
  cluster.options.shards = 1;
  ASSERT_THAT(cluster.Restart(), IsOk());
  EXPECT_EQ(cluster.core().Status().map_version(), 1u);
}

TEST(OptionsTest, AreChecked) {
  EXPECT_THAT(Validate(Options()), IsOk());
  EXPECT_THAT(Validate(Options{.shards = 0}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("shards")));
  EXPECT_THAT(Validate(Options{.shards = 3, .ring_bits = 1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("shards")));
  EXPECT_THAT(Validate(Options{.ring_bits = 17}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("ring_bits")));
  EXPECT_THAT(Validate(Options{.keep_alive = absl::ZeroDuration()}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("keep_alive")));
  EXPECT_THAT(Validate(Options{.session_timeout = absl::Seconds(1)}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("session_timeout")));
}

}  // namespace
}  // namespace paceline::coordinator
