// Work queues of jobs: sessions that report, end, and are closed everywhere before others get their work.
#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WorkQueuesTest : public ::testing::Test {
 protected:
  WorkQueuesTest() {
    cluster_.JoinShards();
    a_ = cluster_.Opened("ctr");
    b_ = cluster_.Opened("ctr");
    cluster_.kept_alive = {a_, b_};
    queue_ = Open(a_)->queue();
  }

  static v1::WorkSpec Spec(uint64_t examples = 100, uint64_t per_item = 10, uint64_t passes = 1) {
    v1::WorkSpec spec;
    spec.set_examples(examples);
    spec.set_per_item(per_item);
    spec.set_passes(passes);
    return spec;
  }
  absl::StatusOr<v1::OpenWorkReply> Open(uint64_t session, const v1::WorkSpec& spec = Spec(),
                                         const std::string& name = "train") {
    v1::OpenWorkRequest request;
    request.set_session(session);
    request.set_token(cluster_.SecretOf(session));
    request.set_name(name);
    *request.mutable_spec() = spec;
    return cluster_.core().OpenWork(request);
  }
  struct Told {
    std::map<uint64_t, uint64_t> begun = {};  // marks
    std::vector<uint64_t> done = {};
    std::vector<uint64_t> given_back = {};
    uint32_t ahead = 0;
    uint32_t waiting = 0;
    uint64_t number = 0;  // 0: the next
  };
  absl::StatusOr<v1::ReportWorkReply> Report(uint64_t session, const Told& told) {
    v1::ReportWorkRequest request;
    request.set_session(session);
    request.set_token(cluster_.SecretOf(session));
    request.set_queue(queue_);
    request.set_number(told.number == 0 ? ++numbers_[session] : told.number);
    const auto add = [](auto* field, uint64_t item) {
      v1::WorkItems& run = *field->Add();
      run.set_first(item);
      run.set_count(1);
      return &run;
    };
    for (const auto& [item, mark] : told.begun) add(request.mutable_begun(), item)->set_mark(mark);
    for (const uint64_t item : told.done) add(request.mutable_done(), item);
    for (const uint64_t item : told.given_back) add(request.mutable_given_back(), item);
    request.set_ahead(told.ahead);
    request.set_waiting(told.waiting);
    return cluster_.core().ReportWork(request);
  }
  static std::vector<uint64_t> ItemsOf(const absl::StatusOr<v1::ReportWorkReply>& reply) {
    EXPECT_THAT(reply, IsOk());
    std::vector<uint64_t> items;
    if (!reply.ok()) return items;
    for (const auto& [item, held] : wire::FromItems(Spec(100, 10, 100), reply->held())) items.push_back(item);
    return items;
  }
  std::vector<uint64_t> HeldBy(uint64_t session) { return ItemsOf(Report(session, {})); }
  v1::WorkStatus Status() { return cluster_.core().Status().jobs(0).work(0); }

  TestCluster cluster_{2};
  uint64_t a_ = 0;
  uint64_t b_ = 0;
  uint32_t queue_ = 0;
  std::map<uint64_t, uint64_t> numbers_;
};

TEST_F(WorkQueuesTest, TheFirstOpeningMakesTheQueueAndOthersFindIt) {
  EXPECT_EQ(Open(b_)->queue(), queue_);
  EXPECT_NE(Open(b_, Spec(), "validate")->queue(), queue_);
  EXPECT_THAT(Open(b_, Spec(200)), StatusIs(StatusCode::kAlreadyExists, HasSubstr("examples: 100")));
  EXPECT_THAT(Open(b_, Spec(0), "none"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("examples: 0")));
  v1::ReportWorkRequest request;
  const uint64_t other = cluster_.Opened("another");
  request.set_session(other);
  request.set_token(cluster_.SecretOf(other));
  request.set_queue(queue_);
  EXPECT_THAT(cluster_.core().ReportWork(request), StatusIs(StatusCode::kNotFound));
}

TEST_F(WorkQueuesTest, QueuesOfAJobAreBounded) {
  cluster_.options.limits.work_queues = 2;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(Open(a_, Spec(), "second"), IsOk());
  EXPECT_THAT(Open(a_, Spec(), "third"),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("work queues of job")));
}

TEST_F(WorkQueuesTest, AReportThatComesTwiceOrLateChangesNothing) {
  EXPECT_THAT(ItemsOf(Report(a_, {.ahead = 2})), ElementsAre(0, 1));
  EXPECT_THAT(ItemsOf(Report(a_, {.ahead = 4, .number = 1})), ElementsAre(0, 1)) << "its answer was lost";
  EXPECT_THAT(ItemsOf(Report(a_, {.begun = {{0, 0}}, .given_back = {1}})), ElementsAre(0));
  EXPECT_THAT(ItemsOf(Report(b_, {.ahead = 1})), ElementsAre(1));
  EXPECT_THAT(ItemsOf(Report(a_, {.ahead = 9, .number = 1})), ElementsAre(0));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(ItemsOf(Report(a_, {.done = {0}, .number = 2})), ElementsAre(0)) << "late, at the next leader";
}

TEST_F(WorkQueuesTest, PassesInOrderWaitForWhoeverHoldsTheOldestItem) {
  v1::WorkSpec spec = Spec(/*examples=*/20, /*per_item=*/10, /*passes=*/2);
  spec.set_passes_in_order(true);
  queue_ = Open(a_, spec, "in-order")->queue();
  EXPECT_THAT(ItemsOf(Report(a_, {.ahead = 1})), ElementsAre(0));
  EXPECT_THAT(ItemsOf(Report(b_, {.ahead = 4})), ElementsAre(1));
  const auto waits = Report(b_, {.begun = {{1, 20}}, .done = {1}, .ahead = 4, .waiting = 1});
  EXPECT_THAT(ItemsOf(waits), ElementsAre()) << "item 2 is that of item 0, which is not done";
  EXPECT_FALSE(waits->complete());
  EXPECT_THAT(waits->waits_for(), HasSubstr("which holds 1 items"));
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(ItemsOf(Report(b_, {.ahead = 4, .waiting = 1})), ElementsAre());
  Report(a_, {.begun = {{0, 10}}, .done = {0}}).IgnoreError();
  EXPECT_THAT(ItemsOf(Report(b_, {.ahead = 4, .waiting = 1})), ElementsAre(2));
}

TEST_F(WorkQueuesTest, ARestartForgetsNothing) {
  Report(a_, {.ahead = 3}).IgnoreError();
  Report(a_, {.begun = {{0, 4}}, .done = {1}, .ahead = 2}).IgnoreError();
  Report(b_, {.ahead = 1}).IgnoreError();
  const std::vector<uint64_t> of_a = HeldBy(a_);
  const std::vector<uint64_t> of_b = HeldBy(b_);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(HeldBy(a_), of_a);
  EXPECT_EQ(HeldBy(b_), of_b);
  EXPECT_EQ(Status().examples_done(), 10u);
}

TEST_F(WorkQueuesTest, ACommitThatFailsHandsOutNothing) {
  for (const auto fault : {FaultyStore::Fault::kFailBefore, FaultyStore::Fault::kFailAfter}) {
    const std::vector<uint64_t> before = HeldBy(a_);
    cluster_.store().Plan(fault, 1);
    EXPECT_THAT(Report(a_, {.done = before, .ahead = 2}), StatusIs(StatusCode::kUnavailable));
    EXPECT_EQ(HeldBy(a_), before);
    const std::vector<uint64_t> now = ItemsOf(Report(a_, {.done = before, .ahead = 2}));
    EXPECT_EQ(now.size(), 2u);
    for (const uint64_t item : now) EXPECT_THAT(before, ::testing::Not(::testing::Contains(item)));
  }
  EXPECT_EQ(Status().examples_done(), 20u);
}

TEST_F(WorkQueuesTest, AnEvictedWorkersItemsComeBackOnceItIsClosedEverywhere) {
  Report(a_, {.ahead = 3}).IgnoreError();
  Report(a_, {.begun = {{0, 4}}}).IgnoreError();
  cluster_.kept_alive = {b_};
  FakeShard& shard = cluster_.shards().at("shard-1");
  for (uint32_t s = 0; s < 8; ++s) {
    if (shard.IsPrimaryOf(s)) shard.withheld.insert(s);
  }
  ASSERT_FALSE(shard.withheld.empty());
  cluster_.Run(absl::Seconds(15));
  ASSERT_EQ(cluster_.StateOf(a_), "closing");
  EXPECT_THAT(ItemsOf(Report(b_, {.ahead = 1})), ElementsAre(3)) << "shard-1 may still take its updates";
  shard.withheld.clear();
  cluster_.Run(absl::Seconds(5));
  ASSERT_EQ(cluster_.StateOf(a_), "closed");
  const auto reply = Report(b_, {.done = {3}, .ahead = 2});
  EXPECT_THAT(ItemsOf(reply), ElementsAre(0, 1));
  EXPECT_EQ(reply->held(0).mark(), 4u) << "from its last mark on";
  EXPECT_EQ(Status().again_begun(), 6u);
  EXPECT_EQ(Status().again_perhaps(), 20u);
  EXPECT_EQ(Status().items_again(), 3u);
}

TEST_F(WorkQueuesTest, NoLeaseRunsOutWhileNoCoordinatorIsThere) {
  Report(a_, {.ahead = 3}).IgnoreError();
  cluster_.Stop();
  cluster_.clock().now += absl::Hours(1);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_THAT(HeldBy(a_), ElementsAre(0, 1, 2));
}

TEST_F(WorkQueuesTest, MarksReachTheStoreInTime) {
  Report(a_, {.ahead = 1}).IgnoreError();
  cluster_.Run(absl::Seconds(6));
  Report(a_, {.begun = {{0, 4}}}).IgnoreError();
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.kept_alive = {b_};
  cluster_.Run(absl::Seconds(20));
  EXPECT_EQ(Status().again_begun(), 6u);
}

TEST_F(WorkQueuesTest, WhoIsOutOfWorkGetsHalfOfWhatAnotherHasNotBegun) {
  for (int i = 0; i < 6; ++i) Report(a_, {.ahead = 100}).IgnoreError();
  ASSERT_EQ(HeldBy(a_).size(), 10u);
  Report(a_, {.begun = {{0, 0}, {1, 0}}}).IgnoreError();
  const auto waits = Report(b_, {.ahead = 2, .waiting = 1});
  EXPECT_THAT(ItemsOf(waits), ElementsAre());
  EXPECT_FALSE(waits->complete());
  EXPECT_GT(waits->ask_again_ms(), 0u);
  EXPECT_THAT(waits->waits_for(),
              AllOf(HasSubstr(absl::StrCat("session ", a_)), HasSubstr("holds 10 items, 2 of them begun")));
  const auto asked = Report(a_, {});
  EXPECT_EQ(asked->give_back(), 4u);
  EXPECT_EQ(Report(a_, {.given_back = {6, 7, 8, 9}})->give_back(), 0u);
  EXPECT_EQ(ItemsOf(Report(b_, {.ahead = 2, .waiting = 1})).size(), 1u);
  EXPECT_EQ(Status().again_begun() + Status().again_perhaps(), 0u);
}

TEST_F(WorkQueuesTest, TheQueueIsCompleteWhenEverythingIsDone) {
  std::vector<uint64_t> held;
  for (int i = 0; i < 20; ++i) {
    const auto reply = Report(a_, {.done = held, .ahead = 3});
    held = ItemsOf(reply);
    EXPECT_EQ(reply->complete(), held.empty());
  }
  EXPECT_TRUE(Report(b_, {.ahead = 1, .waiting = 1})->complete());
  EXPECT_EQ(Status().examples_done(), 100u);
  EXPECT_EQ(Status().eta_ms(), 0u);
}

TEST_F(WorkQueuesTest, StatusTellsTheRate) {
  Report(a_, {.ahead = 2}).IgnoreError();
  cluster_.Run(absl::Seconds(10));
  Report(a_, {.done = {0, 1}}).IgnoreError();
  EXPECT_NEAR(Status().examples_per_s(), 2.0, 0.1);
  EXPECT_NEAR(static_cast<double>(Status().eta_ms()), 40'000, 2000);
}

TEST_F(WorkQueuesTest, QueuesGoWithTheirJob) {
  Report(a_, {.ahead = 2}).IgnoreError();
  const auto deleted = cluster_.DeleteJob("ctr", /*force=*/true);
  cluster_.Await(deleted);
  ASSERT_THAT(deleted.status(), IsOk());
  cluster_.Run(absl::Seconds(2));
  cluster_.Stop();
  for (const auto& [key, entry] : cluster_.StoreCopy().entries) {
    EXPECT_THAT(key, ::testing::Not(
                         ::testing::AnyOf(::testing::StartsWith("work/"), ::testing::StartsWith("held/"))));
  }
}

TEST_F(WorkQueuesTest, AReportIsOneCommitAtMost) {
  Report(a_, {.ahead = 4}).IgnoreError();
  const int before = cluster_.store().commits();
  Report(a_, {.begun = {{0, 1}}, .ahead = 0}).IgnoreError();
  Report(a_, {.begun = {{0, 2}}, .ahead = 0}).IgnoreError();
  EXPECT_EQ(cluster_.store().commits(), before) << "marks wait for company";
  Report(a_, {.done = {0, 1, 2}, .ahead = 4}).IgnoreError();
  EXPECT_EQ(cluster_.store().commits(), before + 1);
}

}  // namespace
}  // namespace paceline::coordinator
