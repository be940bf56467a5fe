// Two coordinators on one store: who leads, and what becomes of it when one or the store is away.
#include "services/coordinator/metadata/leadership/candidate.h"

#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(5);

// The way of one coordinator to the store, which a test can cut.
class CutStore final : public Store {
 public:
  explicit CutStore(std::unique_ptr<MemoryStore> store) : store_(std::move(store)) {}
  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override {
    if (cut) return Away();
    return store_->Get(key);
  }
  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override {
    if (cut) return Away();
    return store_->List(prefix);
  }
  absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) override {
    return cut ? Away() : store_->Commit(conditions, writes);
  }
  bool cut = false;

 private:
  static absl::Status Away() { return absl::UnavailableError("the store is away"); }
  std::unique_ptr<MemoryStore> store_;
};

class CandidateTest : public ::testing::Test {
 protected:
  struct One {
    std::unique_ptr<CutStore> store;
    std::unique_ptr<Candidate> candidate;
    std::vector<absl::Status> step_downs;
    bool paused = false;
    Candidate* operator->() { return candidate.get(); }
  };

  CandidateTest() {
    disk_->shared = true;
    Begin(a_, "a:1");
    Begin(b_, "b:2");
  }
  void Begin(One& one, const std::string& address) {
    one.candidate.reset();
    one.store = std::make_unique<CutStore>(*MemoryStore::Open(disk_));
    one.candidate = std::make_unique<Candidate>(
        Options{.shards = 1, .ring_bits = 3, .random = &random_, .leader_lease = kLease}, *one.store, clock_,
        shards_, probe_, [&one](const absl::Status& why) { one.step_downs.push_back(why); });
    one.candidate->Advertise(address);
    EXPECT_THAT(one.candidate->Start(), IsOk());
  }
  // Time passes for all that run; at no moment do two lead.
  void Run(absl::Duration duration) {
    const absl::Time end = clock_.now + duration;
    for (; clock_.now < end; clock_.now += absl::Milliseconds(10)) {
      for (One* one : {&a_, &b_}) {
        if (one->candidate == nullptr || one->paused) continue;
        if ((*one)->NextDeadline() <= clock_.now) (*one)->OnTime();
      }
      shards_.Deliver();
      EXPECT_LE(Leads(a_) + Leads(b_), 1);
    }
  }
  static int Leads(One& one) { return one.candidate != nullptr && one->leader() != nullptr ? 1 : 0; }
  // a leads, b stands by.
  void LetALead() {
    a_->OnTime();
    Run(absl::Seconds(1));
    ASSERT_TRUE(Leads(a_));
    ASSERT_FALSE(Leads(b_));
  }
  std::vector<std::string> Problems(One& one) {
    const v1::StatusReply status = one->Status();
    return {status.problems().begin(), status.problems().end()};
  }
  absl::Status JoinShard(One& one) {
    v1::JoinClusterRequest join;
    join.set_feature_level(kFeatureLevel);
    join.set_name("shard-0");
    join.set_address("host:1");
    join.set_nonce(1);
    return one->leader()->JoinCluster(join).status();
  }

  ManualClock clock_;
  std::shared_ptr<MemoryStore::Disk> disk_ = std::make_shared<MemoryStore::Disk>();
  world::SplitMix64 random_{1};
  FakeShards shards_;
  Probe probe_;
  One a_;
  One b_;
};

TEST_F(CandidateTest, OneLeadsAndTheOtherNamesIt) {
  LetALead();
  EXPECT_THAT(b_->StandsBy(), StatusIs(StatusCode::kUnavailable, HasSubstr("a:1 leads")));
  EXPECT_EQ(b_->LeaderAddress(), "a:1");
  const v1::StatusReply of_b = b_->Status();
  EXPECT_TRUE(of_b.standby());
  EXPECT_EQ(of_b.leader(), "a:1");
  EXPECT_EQ(of_b.term(), 1u);
  EXPECT_EQ(of_b.problems_size(), 0);
  EXPECT_FALSE(a_->Status().standby());
  EXPECT_TRUE(a_->gauges().leads);
  EXPECT_FALSE(b_->gauges().leads);
  Run(absl::Minutes(10));
  EXPECT_TRUE(Leads(a_)) << "it goes on leading";
  EXPECT_EQ(a_->terms(), 1u);
}

TEST_F(CandidateTest, ACoordinatorWithoutAnAddressDoesNotLead) {
  Candidate hidden({.ring_bits = 3, .random = &random_, .leader_lease = kLease}, *a_.store, clock_, shards_,
                   probe_);
  ASSERT_THAT(hidden.Start(), IsOk());
  hidden.OnTime();
  EXPECT_EQ(hidden.leader(), nullptr);
  hidden.Advertise("c:3");
  hidden.OnTime();
  EXPECT_NE(hidden.leader(), nullptr);
}

TEST_F(CandidateTest, AfterTheLeadersDeathTheOtherKnowsAllItKnew) {
  LetALead();
  ASSERT_THAT(JoinShard(a_), IsOk());
  a_.candidate.reset();
  Run(kLease - absl::Seconds(1));
  EXPECT_FALSE(Leads(b_)) << "it may be slow";
  Run(absl::Seconds(2));
  ASSERT_TRUE(Leads(b_));
  EXPECT_EQ(b_->Status().shards_size(), 1);
  EXPECT_EQ(b_->Status().term(), 2u);
}

TEST_F(CandidateTest, ALeaderThatEndsInOrderIsReplacedAtOnce) {
  LetALead();
  a_->Stop();
  a_.candidate.reset();
  Run(kLease / 5);
  EXPECT_TRUE(Leads(b_));
}

TEST_F(CandidateTest, APausedLeaderDoesNothingWhenItWakes) {
  LetALead();
  ASSERT_THAT(JoinShard(a_), IsOk());
  a_.paused = true;
  CoordinatorCore* core = a_->leader();
  Run(3 * kLease);
  ASSERT_TRUE(Leads(b_));
  EXPECT_EQ(a_->leader(), nullptr) << "by its own clock, before anything wakes it";
  // Even what was under way in it commits nothing.
  v1::OpenSessionRequest open;
  open.set_feature_level(kFeatureLevel);
  open.set_job("ctr");
  open.set_nonce(5);
  Pending<v1::OpenSessionReply> pending;
  core->OpenSession(open, absl::InfiniteFuture(), pending.done());
  EXPECT_THAT(pending.status(), StatusIs(StatusCode::kUnavailable, HasSubstr("another coordinator")));
  EXPECT_EQ(b_->Status().jobs_size(), 0);
  a_.paused = false;
  Run(absl::Seconds(2));
  EXPECT_EQ(a_.step_downs.size(), 1u);
  EXPECT_THAT(a_->StandsBy(), StatusIs(StatusCode::kUnavailable, HasSubstr("b:2 leads")));
}

TEST_F(CandidateTest, ALeaderThatIsCutOffStepsDownBeforeAnotherLeads) {
  LetALead();
  ASSERT_THAT(JoinShard(a_), IsOk());
  v1::OpenSessionRequest open;
  open.set_feature_level(kFeatureLevel);
  open.set_job("ctr");
  open.set_nonce(5);
  Pending<v1::OpenSessionReply> waits;
  a_->leader()->OpenSession(open, absl::InfiniteFuture(), waits.done());  // the fake shard has not joined
  a_.store->cut = true;
  Run(kLease + absl::Seconds(1));  // Run checks that two never lead
  EXPECT_EQ(a_.step_downs.size(), 1u);
  EXPECT_THAT(waits.status(), StatusIs(StatusCode::kUnavailable)) << "who waited is sent elsewhere";
  EXPECT_THAT(Problems(a_), Contains(HasSubstr("the store is away")));
  Run(kLease);
  ASSERT_TRUE(Leads(b_));
  a_.store->cut = false;
  Run(absl::Seconds(2));
  EXPECT_THAT(Problems(a_), ::testing::IsEmpty());
  EXPECT_TRUE(Leads(b_));
}

TEST_F(CandidateTest, TheLeaderReturnsWithTheStore) {
  LetALead();
  for (One* one : {&a_, &b_}) one->store->cut = true;
  Run(10 * kLease);
  EXPECT_FALSE(Leads(a_));
  EXPECT_FALSE(Leads(b_));
  for (One* one : {&a_, &b_}) EXPECT_THAT(Problems(*one), Contains(HasSubstr("no coordinator can lead")));
  for (One* one : {&a_, &b_}) one->store->cut = false;
  Run(absl::Seconds(1));
  EXPECT_TRUE(Leads(a_)) << "nobody has led since";
  EXPECT_EQ(a_->Status().term(), 2u);
}

TEST_F(CandidateTest, AStoreThatIsAwayForLessThanALeaseChangesNothing) {
  LetALead();
  for (One* one : {&a_, &b_}) one->store->cut = true;
  Run(kLease / 2);
  for (One* one : {&a_, &b_}) one->store->cut = false;
  Run(2 * kLease);
  EXPECT_TRUE(Leads(a_));
  EXPECT_EQ(a_->terms(), 1u);
  EXPECT_TRUE(a_.step_downs.empty());
}

TEST_F(CandidateTest, OneOfSeveralSimultaneousCandidatesGetsTheTerm) {
  // Both have seen that nobody leads.
  const auto candidacy = Candidacy{.address = "c:3", .lease = kLease, .instead_of = 0};
  ASSERT_THAT(Facts::Load(*a_.store, 3, 1, candidacy), IsOk());
  EXPECT_THAT(Facts::Load(*b_.store, 3, 1, candidacy), StatusIs(StatusCode::kAborted));
  const auto entry = b_.store->Get(keys::kTerm);
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ((*entry)->value, "1");
}

TEST_F(CandidateTest, ACandidateOfAnotherClusterSaysSo) {
  LetALead();
  Candidate other({.ring_bits = 6, .random = &random_, .leader_lease = kLease}, *b_.store, clock_, shards_,
                  probe_);
  ASSERT_THAT(other.Start(), IsOk());
  other.Advertise("c:3");
  b_.candidate.reset();
  a_.candidate.reset();
  for (int i = 0; i < 100; ++i, clock_.now += absl::Milliseconds(100)) other.OnTime();
  EXPECT_EQ(other.leader(), nullptr);
  EXPECT_THAT(other.StandsBy(), StatusIs(StatusCode::kUnavailable, HasSubstr("ring_bits: 6")));
}

}  // namespace
}  // namespace paceline::coordinator
