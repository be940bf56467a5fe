// Dropped tables and changed rates: requests, refusals, and restarts in between.
#include "services/coordinator/metadata/jobs/test_job_changes.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// -- drop --

TEST_F(JobChangesTest, TheCatalogueForgetsATableBeforeAnySegmentDoes) {
  const auto dropping = cluster_.DropTable(session_, weights_);
  EXPECT_FALSE(dropping.answered());
  EXPECT_THAT(TableNames(), IsEmpty());
  const auto catalogue = cluster_.core().GetCatalogue();
  EXPECT_EQ(catalogue->version(), 2u);
  EXPECT_EQ(catalogue->newest_table(), weights_) << "that it was there is known";
  EXPECT_EQ(Dropped(weights_), 0);
  cluster_.Await(dropping);
  EXPECT_THAT(dropping.status(), IsOk());
  EXPECT_EQ(dropping->catalogue_version(), 2u);
  EXPECT_EQ(Dropped(weights_), 8);
  EXPECT_EQ(cluster_.shards().at("shard-0").catalogue.tables_size(), 0);
}

TEST_F(JobChangesTest, ATableOfTheSameNameIsANewOne) {
  const auto dropping = cluster_.DropTable(session_, weights_);
  const auto again = cluster_.OpenTable(session_, "weights", SparseSchema(9));
  ASSERT_THAT(again, IsOk()) << "the name is free at once, for another schema too";
  EXPECT_EQ(again->table().id(), 2u);
  cluster_.Await(dropping);
  EXPECT_EQ(Dropped(again->table().id()), 0);
  EXPECT_THAT(Done(cluster_.DropTable(session_, weights_)).status(), IsOk()) << "a late repetition";
  EXPECT_THAT(TableNames(), ElementsAre("weights"));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_EQ(cluster_.OpenTable(session_, "weights", {}, false)->table().id(), 2u);
}

TEST_F(JobChangesTest, OnlyTheTablesOwnJobMayDropIt) {
  const uint64_t stranger = cluster_.Opened("other");
  EXPECT_THAT(
      cluster_.DropTable(stranger, weights_).status(),
      StatusIs(StatusCode::kPermissionDenied, AllOf(HasSubstr("table: 1"), HasSubstr("job 'other'"))));
  EXPECT_THAT(cluster_.DropTable(session_, 7).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("never created")));
  EXPECT_THAT(cluster_.DropTable(99, weights_).status(), StatusIs(StatusCode::kFailedPrecondition));
  v1::DropTableRequest request;
  request.set_table(weights_);
  Pending<v1::DropTableReply> nobody;
  cluster_.core().DropTable(request, absl::InfiniteFuture(), nobody.done());
  EXPECT_THAT(nobody.status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("session, job")));
  request.set_job("nobody's");
  cluster_.core().DropTable(request, absl::InfiniteFuture(), nobody.done());
  request.set_job("other");
  Pending<v1::DropTableReply> others;
  cluster_.core().DropTable(request, absl::InfiniteFuture(), others.done());
  EXPECT_THAT(others.status(), StatusIs(StatusCode::kPermissionDenied));
  EXPECT_THAT(TableNames(), ElementsAre("weights"));
  request.set_job("ctr");
  Pending<v1::DropTableReply> operators;
  cluster_.core().DropTable(request, absl::InfiniteFuture(), operators.done());
  cluster_.Await(operators);
  EXPECT_THAT(operators.status(), IsOk());
}

TEST_F(JobChangesTest, ADropNamesTheShardsThatItWaitsFor) {
  cluster_.shards().at("shard-1").withheld = {1, 3, 5, 7, 0, 2, 4, 6};
  const auto dropping = cluster_.DropTable(session_, weights_, /*timeout_ms=*/4000);
  cluster_.Run(absl::Seconds(3.5));
  EXPECT_THAT(cluster_.Problems(), Contains(AllOf(HasSubstr("table 'weights'"), HasSubstr("shard-1"))));
  cluster_.Await(dropping);
  EXPECT_THAT(dropping.status(),
              StatusIs(StatusCode::kDeadlineExceeded, AllOf(HasSubstr("'weights'"), HasSubstr("shard-1"))));
  cluster_.shards().at("shard-1").withheld.clear();
  EXPECT_THAT(Done(cluster_.DropTable(session_, weights_)).status(), IsOk()) << "it went on";
  EXPECT_THAT(cluster_.Problems(), IsEmpty());
}

TEST_F(JobChangesTest, ARestartTakesADropUpAgain) {
  cluster_.shards().at("shard-1").up = false;
  const auto dropping = cluster_.DropTable(session_, weights_);
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(dropping.answered());
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(3));
  EXPECT_EQ(Dropped(weights_), 8);
}

// Versions of the list of tables are numbers like others: a store that is behind would give them out again.
TEST_F(JobChangesTest, NoVersionIsGivenOutBeforeTheShardsWereHeardOf) {
  const auto version = [&] { return cluster_.core().GetCatalogue()->version(); };
  const uint64_t session = cluster_.Opened("second");
  Table(session, "w");
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto deleting = cluster_.DeleteJob("second", /*force=*/true);
  cluster_.beating = false;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.shards().at("shard-1").withheld.clear();
  const uint64_t before = version();
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(cluster_.DropTable(session_, weights_).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of shard-0")));
  EXPECT_THAT(cluster_.ChangeRule(Rates(0.5)).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of shard-0")));
  EXPECT_EQ(version(), before);
  EXPECT_THAT(TableNames(), ElementsAre("weights", "w"));
  cluster_.beating = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(TableNames(), ElementsAre("weights"));
  EXPECT_THAT(Done(cluster_.ChangeRule(Rates(0.5))).status(), IsOk());
  EXPECT_THAT(Done(cluster_.DropTable(session_, weights_)).status(), IsOk());
  EXPECT_EQ(version(), before + 3);
}

TEST_F(JobChangesTest, AnAbandonedRequestStillDropsTheTable) {
  const auto dropping = cluster_.DropTable(session_, weights_);
  cluster_.core().Abandon(dropping.ticket);
  EXPECT_THAT(dropping.status(), StatusIs(StatusCode::kCancelled));
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(Dropped(weights_), 8);
}

// -- rates --

TEST_F(JobChangesTest, RatesChangeBeyondEveryKnownClock) {
  const uint64_t worker = cluster_.Worker("ctr");
  AdvanceClocks(10);
  ASSERT_THAT(cluster_.KeepAlive(worker, 12), IsOk());
  const auto changing = cluster_.ChangeRule(Rates(0.5f));
  EXPECT_EQ(cluster_.core().Status().tables(0).schema().rule().sgd().learning_rate(), 1) << "not yet";
  cluster_.Await(changing);
  ASSERT_THAT(changing.status(), IsOk());
  EXPECT_EQ(changing->table().rule_clock(), 14u);
  EXPECT_EQ(changing->table().rule_change(), 1u);
  EXPECT_EQ(changing->table().schema().rule().sgd().learning_rate(), 0.5f);
  EXPECT_EQ(changing->table().created_rule().sgd().learning_rate(), 1);
  EXPECT_EQ(changing->catalogue_version(), 2u);
  for (uint32_t s = 0; s < 8; ++s) {
    EXPECT_EQ(In(s).clock, 14u);
    EXPECT_EQ(In(s).lr, 0.5f);
  }
  EXPECT_THAT(Done(cluster_.ChangeRule(Rates(0.5f)))->table().rule_change(), 1u) << "asked for again";
  EXPECT_EQ(cluster_.shards().at("shard-0").catalogue.version(), 2u);
}

TEST_F(JobChangesTest, AClockThatIsRefusedIsFollowedByALaterOne) {
  const uint64_t worker = cluster_.Worker("ctr");
  (void)worker;
  cluster_.shards().AdvanceMinClock(30);  // and no beat has said so
  const auto changing = Done(cluster_.ChangeRule(Rates(0.5f)));
  ASSERT_THAT(changing.status(), IsOk());
  EXPECT_EQ(changing->table().rule_clock(), 34u) << "twice the margin beyond";
  EXPECT_EQ(
      cluster_.CountSegments([&](const FakeSegment& s) { return s.rates.at(weights_).back().clock == 34; }),
      8);
}

TEST_F(JobChangesTest, AWishedClockIsKeptIfNoWorkerHasReachedIt) {
  cluster_.Worker("ctr");
  AdvanceClocks(10);
  EXPECT_EQ(Done(cluster_.ChangeRule(At(Rates(0.5f), 100)))->table().rule_clock(), 100u);
  EXPECT_EQ(Done(cluster_.ChangeRule(At(Rates(0.25f), 3)))->table().rule_clock(), 12u)
      << "passed: the next one";
  EXPECT_THAT(Done(cluster_.ChangeRule(At(Rates(0.5f), 100))).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("change at clock 12 already")));
  AdvanceClocks(12);
  EXPECT_EQ(Done(cluster_.ChangeRule(At(Rates(0.5f), 100)))->table().rule_clock(), 100u);
  EXPECT_EQ(Done(cluster_.ChangeRule(At(Rates(0.25f), 50)))->table().rule_clock(), 50u);
  EXPECT_THAT(cluster_.ChangeRule(At(Rates(0.5f), UINT64_MAX)).status(),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(JobChangesTest, NowIsNowEverywhere) {
  cluster_.Worker("ctr");
  AdvanceClocks(10);
  const auto changed = Done(cluster_.ChangeRule(Now(Rates(0.5f))));
  EXPECT_EQ(changed->table().rule_clock(), 0u);
  EXPECT_TRUE(In(3).at_once);
  EXPECT_EQ(In(3).clock, 10u);
}

TEST_F(JobChangesTest, WithoutWorkersItIsAtOnceAndNoWorkerJoinsMeanwhile) {
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto changing = cluster_.ChangeRule(Rates(0.5f));
  cluster_.Run(absl::Seconds(1));
  const auto joining = cluster_.JoinJob(session_);
  const uint64_t stranger = cluster_.shards().at("shard-0").up ? 0 : 1;
  (void)stranger;
  cluster_.Run(absl::Seconds(1));
  EXPECT_FALSE(joining.answered());
  EXPECT_EQ(cluster_.StateOf(session_), "open");
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(changing);
  EXPECT_EQ(changing->table().rule_clock(), 0u);
  cluster_.Await(joining);
  EXPECT_THAT(joining.status(), IsOk());
}

TEST_F(JobChangesTest, OnlyRatesOfTheSameRuleChange) {
  const auto refused = [&](v1::ChangeRuleRequest request) { return cluster_.ChangeRule(request).status(); };
  v1::ChangeRuleRequest request = Rates(0.5f);
  request.mutable_rule()->mutable_add();
  EXPECT_THAT(refused(request), StatusIs(StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr("'weights'"), HasSubstr("rule is add"))));
  request.clear_rule();
  EXPECT_THAT(refused(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("rule")));
  EXPECT_THAT(refused(Rates(-1)), StatusIs(StatusCode::kInvalidArgument, HasSubstr("rule.lr is -1")));
  v1::TableSchema schema = SparseSchema(1);
  schema.mutable_rule()->mutable_adagrad()->set_learning_rate(1);
  schema.mutable_rule()->mutable_adagrad()->set_initial_accumulator(1);
  const auto ada = cluster_.OpenTable(session_, "ada", schema);
  request = Rates(1);
  request.set_table(ada->table().id());
  *request.mutable_rule() = schema.rule();
  request.mutable_rule()->mutable_adagrad()->set_initial_accumulator(2);
  EXPECT_THAT(refused(request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("initial_accumulator is 2")));
  const uint64_t stranger = cluster_.Opened("other");
  request = Rates(0.5f);
  request.set_session(stranger);
  EXPECT_THAT(refused(request), StatusIs(StatusCode::kPermissionDenied, HasSubstr("job 'other'")));
}

TEST_F(JobChangesTest, ASecondChangeWaitsAndADropEndsIt) {
  cluster_.Worker("ctr");
  cluster_.shards().at("shard-1").withheld = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto changing = cluster_.ChangeRule(Rates(0.5f));
  const auto same = cluster_.ChangeRule(Rates(0.5f));
  EXPECT_FALSE(same.answered());
  EXPECT_THAT(cluster_.ChangeRule(Rates(0.25f)).status(), StatusIs(StatusCode::kUnavailable));
  const auto dropping = cluster_.DropTable(session_, weights_);
  cluster_.Run(absl::Milliseconds(50));
  EXPECT_THAT(changing.status(), StatusIs(StatusCode::kNotFound, HasSubstr("'weights' was dropped")));
  EXPECT_THAT(same.status(), StatusIs(StatusCode::kNotFound));
  cluster_.shards().at("shard-1").withheld.clear();
  cluster_.Await(dropping);
  EXPECT_THAT(dropping.status(), IsOk());
  EXPECT_THAT(cluster_.ChangeRule(Rates(0.25f)).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("dropped")));
}

TEST_F(JobChangesTest, TheSchemaAsItWasCreatedStillOpensTheTable) {
  ASSERT_THAT(Done(cluster_.ChangeRule(Rates(0.5f))).status(), IsOk());
  ASSERT_THAT(Done(cluster_.ChangeRule(Rates(0.25f))).status(), IsOk());
  for (const float lr : {1.0f, 0.25f}) {
    const auto opened = cluster_.OpenTable(session_, "weights", SgdSchema(lr));
    ASSERT_THAT(opened, IsOk()) << lr;
    EXPECT_EQ(opened->table().schema().rule().sgd().learning_rate(), 0.25f);
  }
  EXPECT_THAT(cluster_.OpenTable(session_, "weights", SgdSchema(0.5f)),
              StatusIs(StatusCode::kAlreadyExists, AllOf(HasSubstr("0.25"), HasSubstr("0.5"))));
  v1::TableSchema other = SgdSchema(1);
  other.set_dim(2);
  EXPECT_THAT(cluster_.OpenTable(session_, "weights", other),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("dim: 1 against 2")));
}

TEST_F(JobChangesTest, ARestartTakesAChangeOfRatesUpAgain) {
  cluster_.Worker("ctr");
  cluster_.shards().at("shard-1").up = false;
  const auto changing = cluster_.ChangeRule(At(Rates(0.5f), 40));
  cluster_.Run(absl::Seconds(1));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_EQ(cluster_.core().Status().tables(0).rule_change(), 0u);
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(3));
  EXPECT_EQ(cluster_.core().Status().tables(0).rule_clock(), 40u);
  EXPECT_EQ(In(1).clock, 40u);
}

TEST_F(JobChangesTest, ChangesOfOneJobDoNotTouchAnother) {
  const uint64_t mine = cluster_.Worker("ctr");
  const uint64_t theirs = cluster_.Worker("other");
  const uint32_t table = Table(theirs, "weights");
  EXPECT_NE(table, weights_);
  EXPECT_EQ(Done(cluster_.ChangeRule(Rates(0.5f)))->table().schema().rule().sgd().learning_rate(), 0.5f);
  const auto status = cluster_.core().Status();
  ASSERT_EQ(status.tables_size(), 2);
  EXPECT_EQ(status.tables(1).schema().rule().sgd().learning_rate(), 1);
  EXPECT_EQ(status.jobs_size(), 2);
  EXPECT_THAT(Done(cluster_.FinishWorker(mine)).status(), IsOk());
  EXPECT_EQ(cluster_.StateOf(theirs), "worker");
  EXPECT_THAT(Done(cluster_.DeleteJob("ctr", true)).status(), IsOk());
  EXPECT_EQ(cluster_.StateOf(theirs), "worker");
  EXPECT_EQ(cluster_.CountSegments([&](const FakeSegment& s) { return s.workers.contains(theirs); }), 8);
  EXPECT_THAT(TableNames(), ElementsAre("weights"));
}

}  // namespace
}  // namespace paceline::coordinator
