// Tables dropped, rates changed and jobs closed, as a whole shard takes it: over its streams and by the
// coordinator.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/testing.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

using paceline::testing::IsOk;
using paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StillClock : public world::Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
};

// The client's end of a push stream: handles frames at once, keeps the replies.
class PushEnd : public world::StreamPort {
 public:
  explicit PushEnd(Shard& shard, uint32_t job, uint64_t session) : stream_(shard.NewPushStream()) {
    stream_->Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), this));
    wire::Frame<v1::PushRequest> hello;
    hello.head.mutable_hello()->set_feature_level(kFeatureLevel);
    hello.head.mutable_hello()->set_job(job);
    hello.head.mutable_hello()->set_session(session);
    Send(hello);
  }
  void Kick() override {
    absl::Cord bytes;
    while (stream_->NextFrame(&bytes)) {
      const auto reply = wire::Decode<v1::PushReply>(bytes).value();
      for (const v1::Refusal& refusal : reply.head.refusals()) refusals.push_back(refusal);
      const std::vector<wire::Mark> marks = wire::ParseMarks(reply.head.committed()).value();
      for (const wire::Mark& mark : marks) committed = mark.number;
    }
  }
  void Close(absl::Status) override {}
  void Send(const wire::Frame<v1::PushRequest>& frame) { stream_->OnFrame(wire::Encode(frame)); }
  // One row of the table, or an empty part.
  void Push(uint64_t number, uint32_t table, uint64_t catalogue) {
    wire::Frame<v1::PushRequest> frame;
    frame.head.set_table(table);
    frame.head.set_line(v1::LINE_ARRIVAL);
    frame.head.set_catalogue_version(catalogue);
    std::string parts;
    wire::Append(wire::PartEntry{SegmentId(0), table == 0 ? 0u : 1u, Epoch(1), number}, parts);
    frame.head.set_parts(parts);
    if (table != 0) {
      frame.keys = absl::Cord(std::string(8, '\0'));
      frame.values = absl::Cord(std::string("\0\0\x80\x3f", 4));
    }
    Send(frame);
  }

  std::vector<v1::Refusal> refusals;
  PartNumber committed = 0;

 private:
  std::shared_ptr<world::AcceptedStream> stream_;
};

// A shard that serves the only segment, two jobs with a table "w" each, and a session of each.
class ShardJobsTest : public ::testing::Test {
 protected:
  ShardJobsTest() {
    shard.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
    v1::InstallRequest request = CatalogueOf(1, {1, 2});
    request.mutable_map()->set_version(1);
    request.mutable_map()->add_segments()->set_epoch(1);
    request.mutable_map()->mutable_segments(0)->mutable_primary()->set_incarnation(1);
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_name("shard-0");
    info->set_address("127.0.0.1:1");
    info->set_incarnation(1);
    EXPECT_THAT(shard.Install(request), IsOk());
    for (const uint32_t job : {1u, 2u}) {
      EXPECT_THAT(Do(log::ChangeOf(v1::Change::kOpen, SessionId(job + 4), JobId(job))), IsOk());
    }
  }

  // Table 1 is job 1's, all others are job 2's; four have been created so far.
  static v1::InstallRequest CatalogueOf(uint64_t version, const std::vector<uint32_t>& tables) {
    v1::InstallRequest request;
    request.mutable_catalogue()->set_version(version);
    request.mutable_catalogue()->set_newest_table(4);
    for (const uint32_t id : tables) *request.mutable_catalogue()->add_tables() = Table(id);
    return request;
  }
  static v1::Table Table(uint32_t id) {
    v1::Table table;
    table.set_id(id);
    table.set_job(id == 1 ? 1 : 2);
    table.set_name("w");
    table.mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
    table.mutable_schema()->set_dim(1);
    table.mutable_schema()->mutable_rule()->mutable_sgd()->set_learning_rate(1);
    return table;
  }
  absl::StatusOr<v1::ChangeReply> Do(const v1::Change& change) {
    absl::StatusOr<v1::ChangeReply> out = absl::UnknownError("no answer");
    shard.MakeChange(change, [&](absl::StatusOr<v1::ChangeReply> reply) { out = std::move(reply); });
    return out;
  }
  static v1::Change About(v1::Subject::Kind kind, uint64_t id, uint32_t job, uint64_t number = 0) {
    v1::Change change;
    change.mutable_subject()->set_kind(kind);
    change.mutable_subject()->set_id(id);
    change.set_job(job);
    change.set_number(number);
    return change;
  }
  static v1::Change Dropping(uint32_t table, uint64_t number = 0) {
    v1::Change change = About(v1::Subject::TABLE, table, table == 1 ? 1 : 2, number);
    change.mutable_drop();
    return change;
  }
  static v1::Change Rates(uint32_t table, uint64_t number, uint64_t change_number) {
    v1::Change change = About(v1::Subject::TABLE, table, table == 1 ? 1 : 2, change_number);
    *change.mutable_rule()->mutable_table() = Table(table);
    change.mutable_rule()->mutable_rule()->mutable_sgd()->set_learning_rate(2);
    change.mutable_rule()->set_number(number);
    change.mutable_rule()->set_at_once(true);
    return change;
  }
  absl::StatusOr<v1::ChangeReply> Drop(uint32_t table) { return Do(Dropping(table)); }
  const log::Segment& segment() { return shard.context().host(SegmentId(0)).primary()->segment(); }
  v1::BeatRequest Described() {
    v1::BeatRequest beat;
    shard.Describe([&](v1::BeatRequest described) { beat = std::move(described); });
    return beat;
  }

  StillClock clock;
  Probe probe;
  Shard shard{ShardOptions{}, clock, probe};
};

TEST_F(ShardJobsTest, AShardBehindTheCatalogueRefusesADroppedTableToo) {
  PushEnd client(shard, 1, 5);
  client.Push(1, 1, 1);
  EXPECT_EQ(client.committed, 1u);
  const uint64_t before = Described().bytes();
  const auto dropped = Drop(1);
  ASSERT_THAT(dropped, IsOk());
  EXPECT_THAT(dropped->committed(), ElementsAre(0u));
  EXPECT_LT(Described().bytes(), before);
  client.Push(2, 1, 1);
  ASSERT_EQ(client.refusals.size(), 1u);
  EXPECT_EQ(client.refusals[0].reason(), v1::Refusal::INVALID);
  EXPECT_THAT(client.refusals[0].message(), HasSubstr("table 'w' (1) was dropped"));
  ASSERT_THAT(shard.Install(CatalogueOf(2, {2, 3})), IsOk());
  client.Push(2, 1, 1);
  EXPECT_THAT(client.refusals.back().message(), HasSubstr("table: 1 was dropped"));
  client.Push(2, 9, 1);
  EXPECT_THAT(client.refusals.back().message(), HasSubstr("table: 9 is unknown")) << "never created";
  client.Push(2, 0, 2);
  EXPECT_EQ(client.committed, 2u) << "an empty part takes the number, and the stream lives on";
  EXPECT_EQ(client.refusals.size(), 3u);
}

TEST_F(ShardJobsTest, AnotherJobsTableIsRefusedAndUntouched) {
  PushEnd one(shard, 1, 5);
  PushEnd two(shard, 2, 6);
  one.Push(1, 1, 1);
  two.Push(1, 2, 1);
  one.Push(2, 2, 1);
  ASSERT_EQ(one.refusals.size(), 1u);
  EXPECT_EQ(one.refusals[0].reason(), v1::Refusal::INVALID);
  EXPECT_THAT(one.refusals[0].message(), HasSubstr("table: 2 belongs to another job"));
  ASSERT_THAT(Drop(1), IsOk());
  two.Push(2, 2, 1);
  EXPECT_EQ(two.committed, 2u);
  EXPECT_TRUE(two.refusals.empty());
  const v1::BeatRequest beat = Described();
  std::map<uint32_t, uint64_t> rows;
  for (const v1::JobClock& job : beat.jobs()) rows[job.job()] = job.rows();
  EXPECT_EQ(rows[1], 0u);
  EXPECT_EQ(rows[2], 1u);
}

TEST_F(ShardJobsTest, AJobThatIsClosedIsNotReportedAnyMore) {
  PushEnd two(shard, 2, 6);
  two.Push(1, 2, 1);
  ASSERT_THAT(Do(log::ChangeOf(v1::Change::kEvict, SessionId(6), JobId(2))), IsOk());
  v1::Change close = About(v1::Subject::JOB, 2, 2);
  close.mutable_close()->add_tables(2);
  ASSERT_THAT(Do(close), IsOk());
  const v1::BeatRequest described = Described();
  for (const v1::JobClock& job : described.jobs()) EXPECT_NE(job.job(), 2u);
  EXPECT_EQ(Described().rows(), 0u);
}

TEST_F(ShardJobsTest, AChangeThatBreaksItsRulesIsRefused) {
  EXPECT_THAT(Do(v1::Change()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("subject: kind 0")));
  v1::Change change = About(v1::Subject::TABLE, 1, 1);
  EXPECT_THAT(Do(change), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("action: none")));
  v1::Change::ChangeRule& rule = *change.mutable_rule();
  *rule.mutable_table() = Table(1);
  EXPECT_THAT(Do(change), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule")));
  rule.mutable_rule()->mutable_add();
  EXPECT_THAT(Do(change), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule is add")));
  rule.mutable_rule()->mutable_sgd()->set_learning_rate(2);
  rule.set_number(1);
  const auto changed = Do(change);
  ASSERT_THAT(changed, IsOk());
  EXPECT_THAT(changed->committed(), ElementsAre(0u));
}

TEST_F(ShardJobsTest, ASmallerNumberOfASubjectIsLateAndAnEqualOneIsAnsweredAgain) {
  EXPECT_THAT(Do(Rates(1, 1, 4))->committed(), ElementsAre(0u));
  EXPECT_THAT(Do(Dropping(1, 7))->committed(), ElementsAre(0u));
  const Lsn version = segment().version();
  const auto late = Do(Rates(1, 1, 4));
  EXPECT_THAT(late->late(), ElementsAre(0u));
  EXPECT_EQ(late->committed_size(), 0);
  EXPECT_THAT(late->waits(0), HasSubstr("change 4 comes too late"));
  EXPECT_THAT(Do(Dropping(1, 7))->committed(), ElementsAre(0u));
  EXPECT_EQ(segment().version(), version) << "nothing was logged";
  EXPECT_THAT(Do(Rates(2, 1, 5))->committed(), ElementsAre(0u)) << "another subject";
}

TEST_F(ShardJobsTest, WhatIsBelowTheFloorIsLate) {
  v1::Change drop = Dropping(1, 7);
  drop.set_floor(6);
  EXPECT_THAT(Do(drop)->committed(), ElementsAre(0u));
  EXPECT_THAT(Do(Rates(2, 1, 6))->late(), ElementsAre(0u)) << "it was over before the drop was asked for";
  EXPECT_EQ(segment().changes().floor(), 6u);
}

TEST_F(ShardJobsTest, ADeposedCoordinatorIsNotObeyed) {
  shard.NoteTerm(3);
  v1::Change drop = Dropping(1, 7);
  drop.set_term(2);
  const auto refused = Do(drop);
  EXPECT_EQ(refused->committed_size(), 0);
  EXPECT_THAT(refused->waits(0), HasSubstr("of term 2"));
  EXPECT_FALSE(segment().IsDropped(TableId(1)));
  for (const uint64_t term : {3, 4, 0}) {  // 0: not stated
    drop.set_term(term);
    EXPECT_THAT(Do(drop)->committed(), ElementsAre(0u)) << term;
  }
}

}  // namespace
}  // namespace paceline::shard
