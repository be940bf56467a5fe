// One cluster's whole life, with the coordinator ended after each of its commits in turn, or with each of
// them failing: everything that was begun is completed, and nobody gets a wrong answer.
#include <functional>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;
using Fault = FaultyStore::Fault;

class Life {
 public:
  // With `last_words` what the coordinator says after its last commit is still heard.
  Life(Fault fault, int at, bool last_words, int second_crash = 0)
      : last_words_(last_words), second_crash_(second_crash) {
    cluster_.shards().drop_calls = [this] { return cluster_.store().crashed() && !last_words_; };
    cluster_.store().Plan(fault, at);
  }

  void Run() {
    JoinShards();
    cluster_.kept_alive = {1, 2, 3};
    for (const uint64_t nonce : {1, 2, 3}) Open(nonce);
    OpenTable("weights", 1);
    OpenTable("scratch", 2);
    JoinTogether(1, 2);
    ChangeRates(1);
    DropTable(2);
    Finish(1);
    cluster_.kept_alive = {1, 3};
    AwaitEviction(2);
    Close(1);
    Close(3);
    DeleteJob();
    commits_ = cluster_.store().commits();
    CheckEnd();
  }
  int commits() const { return commits_; }

 private:
  // False: the coordinator has ended, its answers are lost, and another one runs now.
  bool Alive() {
    if (!cluster_.store().crashed()) return true;
    for (int tries = 0; tries < 10; ++tries) {
      if (second_crash_ != 0) cluster_.next_fault = {Fault::kCrashAfter, std::exchange(second_crash_, 0)};
      if (cluster_.Restart().ok()) return false;
    }
    ADD_FAILURE() << "no coordinator starts";
    return false;
  }

  // Repeats a request as clients do, until it is answered by something other than UNAVAILABLE.
  template <class Reply>
  Pending<Reply> Do(const std::function<Pending<Reply>()>& issue) {
    Pending<Reply> pending = issue();
    for (int step = 0; step < 10'000; ++step) {
      const bool answered = pending.answered() && !absl::IsUnavailable(pending.status());
      if (last_words_ && answered) break;
      if (!Alive()) {
        pending = issue();
      } else if (answered) {
        break;
      } else if (pending.answered()) {
        cluster_.Run(absl::Milliseconds(100));
        pending = issue();
      } else {
        cluster_.Run(absl::Milliseconds(10));
      }
    }
    EXPECT_THAT(pending.status(), IsOk());
    return pending;
  }
  absl::Status Repeat(const std::function<absl::Status()>& attempt) {
    absl::Status status;
    for (int step = 0; step < 100; ++step) {
      status = attempt();
      if (Alive() && !absl::IsUnavailable(status)) break;
    }
    EXPECT_THAT(status, IsOk());
    return status;
  }

  void JoinShards() {
    for (const std::string name : {"shard-0", "shard-1"}) {
      (void)cluster_.shards().Join(cluster_.core(), name);
      (void)Alive();
      (void)Repeat([&] { return cluster_.shards().JoinAgain(cluster_.core(), name).status(); });
    }
  }

  void Open(uint64_t nonce) {
    const auto opened = Do<v1::OpenSessionReply>([&] { return cluster_.OpenSession("ctr", nonce); });
    ASSERT_TRUE(opened.status().ok());
    EXPECT_EQ(opened->session(), nonce);
    EXPECT_EQ(opened->job(), 1u);
    EXPECT_EQ(CountOpen(nonce), 8);
  }

  void OpenTable(const std::string& name, uint32_t id) {
    v1::TableSchema schema = SparseSchema();
    schema.mutable_rule()->mutable_sgd()->set_learning_rate(1);
    v1::OpenTableReply reply;
    (void)Repeat([&] {
      const auto opened = cluster_.OpenTable(1, name, schema);
      if (opened.ok()) reply = *opened;
      return opened.status();
    });
    EXPECT_EQ(reply.table().id(), id);
  }

  void ChangeRates(uint32_t table) {
    v1::ChangeRuleRequest request;
    request.set_session(1);
    request.set_table(table);
    request.mutable_rule()->mutable_sgd()->set_learning_rate(0.5f);
    const auto changed = Do<v1::ChangeRuleReply>([&] { return cluster_.ChangeRule(request); });
    ASSERT_TRUE(changed.status().ok());
    EXPECT_EQ(changed->table().rule_change(), 1u) << "once, however often it was asked for";
    EXPECT_EQ(changed->table().created_rule().sgd().learning_rate(), 1);
    EXPECT_EQ(cluster_.CountSegments([&](const FakeSegment& s) {
      const auto rates = s.rates.find(table);
      return rates != s.rates.end() && rates->second.size() == 1 &&
             rates->second[0].clock == changed->table().rule_clock();
    }),
              8);
  }

  void DropTable(uint32_t table) {
    (void)Do<v1::DropTableReply>([&] { return cluster_.DropTable(1, table); });
    EXPECT_EQ(cluster_.CountSegments([=](const FakeSegment& s) { return s.dropped.contains(table); }), 8);
  }

  void DeleteJob() {
    v1::DeleteJobRequest request;
    request.set_job("ctr");
    request.set_nonce(77);
    (void)Do<v1::DeleteJobReply>([&] { return cluster_.DeleteJob(request); });
    EXPECT_EQ(cluster_.CountSegments(
                  [](const FakeSegment& s) { return s.closed_jobs.contains(1) && s.dropped.contains(1); }),
              8);
  }

  void JoinTogether(uint64_t a, uint64_t b) {
    Pending<v1::JoinJobReply> of_b;
    const auto of_a = Do<v1::JoinJobReply>([&] {
      of_b = cluster_.JoinJob(b, 2);
      return cluster_.JoinJob(a, 2);
    });
    const auto again_b = Do<v1::JoinJobReply>([&] { return cluster_.JoinJob(b, 2); });
    ASSERT_TRUE(of_a.status().ok() && again_b.status().ok());
    EXPECT_EQ(of_a->start_clock(), again_b->start_clock());
    EXPECT_NE(of_a->rank(), again_b->rank());
    for (const uint64_t session : {a, b}) {
      EXPECT_EQ(cluster_.CountSegments([=](const FakeSegment& s) { return s.workers.contains(session); }), 8);
    }
  }

  void Finish(uint64_t session) {
    (void)Do<v1::FinishWorkerReply>([&] { return cluster_.FinishWorker(session); });
    EXPECT_EQ(cluster_.CountSegments([=](const FakeSegment& s) { return s.finished.contains(session); }), 8);
  }

  void AwaitEviction(uint64_t session) {
    for (int step = 0; step < 6000; ++step) {
      if (Alive() && cluster_.StateOf(session) == "closed") break;
      cluster_.Run(absl::Milliseconds(10));
    }
    EXPECT_EQ(CountClosed(session), 8);
  }

  void Close(uint64_t session) {
    (void)Do<v1::CloseSessionReply>([&] { return cluster_.CloseSession(session); });
    EXPECT_EQ(CountClosed(session), 8);
  }

  void CheckEnd() {
    (void)Alive();
    cluster_.Run(absl::Seconds(2));
    (void)Alive();
    cluster_.store().Plan(Fault::kNone, 0);
    EXPECT_EQ(cluster_.CountSegments([](const FakeSegment& s) {
      return s.open.empty() && s.workers.empty() && s.closed.size() == 3;
    }),
              8);
    for (auto& [name, shard] : cluster_.shards().all()) {
      EXPECT_EQ(shard.map.version(), 1u);
      EXPECT_EQ(shard.catalogue.tables_size(), 0);
    }
    const v1::StatusReply status = cluster_.core().Status();
    EXPECT_THAT(status.problems(), ::testing::IsEmpty());
    EXPECT_EQ(status.jobs_size(), 0);
    EXPECT_EQ(cluster_.Opened("ctr"), 4u);
    EXPECT_EQ(cluster_.core().Status().jobs(0).job(), 2u) << "another job of the same name";
    EXPECT_EQ(cluster_.shards().at("shard-0").changes.back().open().closed_floor(), 3u);
  }

  int CountOpen(uint64_t session) {
    return cluster_.CountSegments([=](const FakeSegment& s) { return s.open.contains(session); });
  }
  int CountClosed(uint64_t session) {
    return cluster_.CountSegments([=](const FakeSegment& s) { return s.closed.contains(session); });
  }

  TestCluster cluster_{2};
  const bool last_words_;
  int second_crash_;
  int commits_ = 0;
};

int CommitsOfALife() {
  Life life(Fault::kNone, 0, true);
  life.Run();
  return life.commits();
}

void LiveWithEach(Fault fault, bool last_words, int second_crash = 0) {
  const int commits = CommitsOfALife();
  ASSERT_GT(commits, 18);
  for (int at = 1; at <= commits; ++at) {
    SCOPED_TRACE(::testing::Message() << "commit " << at << " of " << commits);
    Life(fault, at, last_words, second_crash).Run();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RestartTest, AfterEachCommitWithItsLastWordsLost) {
  LiveWithEach(Fault::kCrashAfter, false);
}
TEST(RestartTest, AfterEachCommitWithItsLastWordsHeard) {
  LiveWithEach(Fault::kCrashAfter, true);
}
TEST(RestartTest, TwoRestartsInARow) {
  for (const int second : {1, 2, 3}) LiveWithEach(Fault::kCrashAfter, false, second);
}
TEST(RestartTest, EachCommitFails) {
  LiveWithEach(Fault::kFailBefore, true);
}
TEST(RestartTest, EachCommitFailsThoughItTookEffect) {
  LiveWithEach(Fault::kFailAfter, true);
}
TEST(RestartTest, EachCommitFailsAndComesLate) {
  LiveWithEach(Fault::kFailLate, true);
}

// A commit that failed may be in the store all the same. What follows it must not give its numbers out again.
TEST(RestartTest, NoIdIsGivenOutTwiceAfterACommitInDoubt) {
  for (const Fault fault : {Fault::kFailBefore, Fault::kFailAfter, Fault::kFailLate}) {
    TestCluster cluster(2);
    cluster.JoinShards();
    const uint64_t first = cluster.Opened("ctr");
    cluster.kept_alive = {first};
    cluster.store().Plan(fault, 1);
    EXPECT_TRUE(absl::IsUnavailable(cluster.OpenSession("other", /*nonce=*/71).status()));
    ASSERT_THAT(cluster.OpenTable(first, "weights", SparseSchema()), IsOk());  // writes the counters
    ASSERT_THAT(cluster.Restart(), IsOk());
    auto retried = cluster.OpenSession("other", 71);
    auto fresh = cluster.OpenSession("third", 72);
    cluster.Await(retried);
    cluster.Await(fresh);
    ASSERT_THAT(retried.status(), IsOk());
    ASSERT_THAT(fresh.status(), IsOk());
    EXPECT_NE(retried->session(), fresh->session());
    EXPECT_NE(retried->job(), fresh->job());
  }
}

TEST(RestartTest, TheFloorMovesOnAfterACommitInDoubt) {
  TestCluster cluster(2);
  cluster.JoinShards();
  const uint64_t first = cluster.Opened("ctr");
  const uint64_t second = cluster.Opened("ctr");
  cluster.kept_alive = {second};
  (void)cluster.CloseSession(first);
  cluster.store().Plan(Fault::kFailAfter, 1);  // the commit that forgets it
  for (int i = 0; i < 100 && cluster.store().commits() == 0; ++i) cluster.Run(absl::Milliseconds(10));
  ASSERT_THAT(cluster.OpenTable(second, "weights", SparseSchema()), IsOk());  // writes the counters
  ASSERT_THAT(cluster.Restart(), IsOk());
  cluster.Run(absl::Seconds(1));
  auto closed = cluster.CloseSession(second);
  cluster.Await(closed);
  ASSERT_THAT(closed.status(), IsOk());
  (void)cluster.Opened("ctr");
  EXPECT_EQ(cluster.shards().at("shard-0").changes.back().open().closed_floor(), second);
}

TEST(TermTest, OnlyTheNewestCoordinatorOfAStoreCanChangeIt) {
  auto disk = std::make_shared<MemoryStore::Disk>();
  auto store = *MemoryStore::Open(disk);
  ManualClock clock;
  FakeShards shards;
  Probe probe;
  world::SplitMix64 random(1);
  auto old = *CoordinatorCore::Create({.shards = 1, .random = &random}, *store, clock, shards, probe);
  ASSERT_THAT(shards.Join(*old, "shard-0"), IsOk());
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job("ctr");
  request.set_nonce(7);
  Pending<v1::OpenSessionReply> opening;
  old->OpenSession(request, absl::InfiniteFuture(), opening.done());
  auto young = *CoordinatorCore::Create({.shards = 1, .random = &random}, *store, clock, shards, probe);
  EXPECT_FALSE(old->deposed());
  shards.Deliver();
  EXPECT_TRUE(old->deposed());
  EXPECT_FALSE(opening.answered());
  old->OnTime();
  EXPECT_THAT(opening.status(), StatusIs(StatusCode::kUnavailable, HasSubstr("another coordinator")));
  EXPECT_THAT(old->KeepAlive({}), StatusIs(StatusCode::kUnavailable, HasSubstr("another coordinator")));
  EXPECT_EQ(young->gauges().sessions["open"], 1u);
  ASSERT_EQ(young->gauges().active_jobs.size(), 1u);
  EXPECT_EQ(young->gauges().active_jobs[0].name, "ctr");
  EXPECT_EQ(young->gauges().term, 2u);
}

}  // namespace
}  // namespace paceline::coordinator
