#include "services/coordinator/metadata/facts/facts.h"

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

class FactsTest : public ::testing::Test {
 protected:
  FactsTest() : store_(*MemoryStore::Open(std::make_shared<MemoryStore::Disk>())) {}
  std::unique_ptr<Facts> Load() {
    auto facts = Facts::Load(*store_, 3);
    EXPECT_THAT(facts, IsOk());
    return *std::move(facts);
  }

  std::unique_ptr<MemoryStore> store_;
};

Changes SomeOfEach() {
  Changes changes;
  changes.counters.emplace().set_session(7);
  changes.map.emplace().set_version(1);
  changes.shards.emplace_back().mutable_info()->set_name("shard-0");
  changes.jobs.emplace_back().set_id(1);
  changes.jobs.back().set_name("ctr");
  changes.sessions.emplace_back().set_id(7);
  changes.tables.emplace_back().set_id(2);
  changes.tables.back().set_job(1);
  changes.tables.back().set_name("weights");
  return changes;
}

TEST_F(FactsTest, AreThereAgainAfterARestart) {
  ASSERT_THAT(Load()->Commit(SomeOfEach()), IsOk());
  const auto facts = Load();
  EXPECT_EQ(facts->term(), 2u);
  EXPECT_EQ(facts->SegmentCount(), 8u);
  EXPECT_EQ(facts->counters().session(), 7u);
  EXPECT_EQ(facts->map_version(), 1u);
  EXPECT_NE(facts->FindShard("shard-0"), nullptr);
  EXPECT_EQ(facts->FindJob("ctr")->id(), 1u);
  EXPECT_NE(facts->FindSession(7), nullptr);
  EXPECT_EQ(facts->FindTable(1, "weights")->id(), 2u);
  EXPECT_EQ(facts->FindTable(2, "weights"), nullptr);
}

TEST_F(FactsTest, SayWhichRingTheirClusterHas) {
  EXPECT_THAT(Facts::CheckRing(*store_, 4), IsOk()) << "there is no cluster yet";
  Load();
  EXPECT_THAT(Facts::CheckRing(*store_, 3), IsOk());
  EXPECT_THAT(Facts::CheckRing(*store_, 4),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("start with --ring-bits 3")));
  EXPECT_THAT(Facts::Load(*store_, 4), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("ring_bits: 4")));
}

TEST_F(FactsTest, AreForgottenToo) {
  auto facts = Load();
  ASSERT_THAT(facts->Commit(SomeOfEach()), IsOk());
  Changes changes;
  changes.forgotten_sessions = {7};
  ASSERT_THAT(facts->Commit(changes), IsOk());
  EXPECT_EQ(facts->FindSession(7), nullptr);
  EXPECT_EQ(Load()->FindSession(7), nullptr);
}

TEST_F(FactsTest, ACommitInDoubtIsUndoneBeforeTheNext) {
  auto memory = std::make_shared<MemoryStore::Disk>();
  FaultyStore store(*MemoryStore::Open(memory));
  auto facts = Facts::Load(store, 3).value();
  ASSERT_THAT(facts->Commit(SomeOfEach()), IsOk());
  Changes lost;  // one key of each kind, new, changed or deleted
  lost.counters.emplace().set_session(8);
  lost.map.emplace().set_version(2);
  lost.shards.emplace_back().mutable_info()->set_shard(1);
  lost.jobs.emplace_back().set_id(2);
  lost.sessions.emplace_back().set_id(8);
  lost.forgotten_sessions = {7};
  lost.tables.emplace_back().set_id(3);
  for (const auto fault :
       {FaultyStore::Fault::kFailAfter, FaultyStore::Fault::kFailBefore, FaultyStore::Fault::kFailLate}) {
    store.Plan(fault, 1);
    EXPECT_THAT(facts->Commit(lost), StatusIs(StatusCode::kUnavailable, HasSubstr("store")));
    Changes other;
    other.jobs.emplace_back().set_id(1);
    other.jobs.back().set_name("ctr");
    ASSERT_THAT(facts->Commit(other), IsOk());
    const auto again = Facts::Load(store, 3).value();
    EXPECT_EQ(again->counters().session(), 7u);
    EXPECT_EQ(again->map_version(), 1u);
    EXPECT_EQ(again->shards().size(), 1u);
    EXPECT_EQ(again->jobs().size(), 1u);
    EXPECT_EQ(again->tables().size(), 1u);
    EXPECT_EQ(again->sessions().size(), 1u);
    EXPECT_NE(again->FindSession(7), nullptr);
    facts = Facts::Load(store, 3).value();  // takes the term back
  }
}

TEST_F(FactsTest, CountersAreNeverTooLow) {
  auto facts = Load();
  Changes changes = SomeOfEach();
  changes.counters->set_session(3);
  changes.counters->set_closed_floor(2);
  changes.shards[0].mutable_info()->set_incarnation(4);
  ASSERT_THAT(facts->Commit(changes), IsOk());
  facts = Load();
  EXPECT_EQ(facts->counters().session(), 7u);
  EXPECT_EQ(facts->counters().table(), 2u);
  EXPECT_EQ(facts->counters().job(), 1u);
  EXPECT_EQ(facts->counters().incarnation(), 4u);
  EXPECT_EQ(facts->counters().catalogue_version(), 1u);
  EXPECT_EQ(facts->counters().closed_floor(), 6u) << "session 7 is the first that has a record";
}

TEST_F(FactsTest, AnEarlierTermCommitsNothing) {
  auto old = Load();
  auto young = Load();
  EXPECT_THAT(old->Commit(SomeOfEach()),
              StatusIs(StatusCode::kUnavailable, HasSubstr("another coordinator")));
  EXPECT_TRUE(old->deposed());
  EXPECT_EQ(old->counters().session(), 0u);
  EXPECT_THAT(young->Commit(SomeOfEach()), IsOk());
}

TEST_F(FactsTest, ARecordThatCannotBeReadIsNamed) {
  (void)Load();
  ASSERT_THAT(store_->Commit({}, {Write::Put(keys::Of(keys::kSessions, uint64_t{3}), "\xff\xff")}), IsOk());
  EXPECT_THAT(Facts::Load(*store_, 3),
              StatusIs(StatusCode::kDataLoss, HasSubstr("session/00000000000000000003")));
}

TEST_F(FactsTest, ANewerFormatIsRefused) {
  ClusterRecord cluster;
  cluster.set_format(3);
  ASSERT_THAT(store_->Commit({}, {Write::Put(std::string(keys::kCluster), cluster.SerializeAsString())}),
              IsOk());
  EXPECT_THAT(Facts::Load(*store_, 3), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("format 3")));
}

TEST(KeysTest, SortAsTheirNumbersDo) {
  EXPECT_EQ(keys::Of(keys::kShards, 2u), "shard/0000000002");
  EXPECT_LT(keys::Of(keys::kSessions, uint64_t{9}), keys::Of(keys::kSessions, uint64_t{10}));
  EXPECT_LT(keys::Of(keys::kSessions, uint64_t{10}), keys::Of(keys::kSessions, UINT64_MAX));
  EXPECT_LT(keys::Of(keys::kTables, 99u), keys::Of(keys::kTables, 100u));
  EXPECT_LT(keys::Of(keys::kJobs, 99u), keys::Of(keys::kJobs, UINT32_MAX));
}

}  // namespace
}  // namespace paceline::coordinator
