// What an older shard is told is what a newer one is told.
#include "services/coordinator/level_one.h"

#include "gtest/gtest.h"

namespace paceline::coordinator {
namespace {

v1::Change About(v1::Subject::Kind kind, uint64_t id) {
  v1::Change change;
  change.set_cluster(7);
  change.mutable_target()->set_shard(3);
  change.set_map_version(9);
  change.set_job(2);
  change.mutable_subject()->set_kind(kind);
  change.mutable_subject()->set_id(id);
  return change;
}

TEST(LevelOneTest, ChangesOfSessions) {
  v1::Change change = About(v1::Subject::SESSION, 5);
  ASSERT_TRUE(IsOfSession(change));
  change.mutable_open()->set_closed_floor(4);
  const v1::SessionChange open = ToSessionChange(change);
  EXPECT_EQ(open.action(), v1::SessionChange::OPEN);
  EXPECT_EQ(open.session(), 5u);
  EXPECT_EQ(open.job(), 2u);
  EXPECT_EQ(open.closed_floor(), 4u);
  EXPECT_EQ(open.cluster(), 7u);
  EXPECT_EQ(open.target().shard(), 3u);
  EXPECT_EQ(open.map_version(), 9u);
  change.mutable_join()->set_start_clock(6);
  change.mutable_join()->set_rank(1);
  const v1::SessionChange join = ToSessionChange(change);
  EXPECT_EQ(join.action(), v1::SessionChange::JOIN);
  EXPECT_EQ(join.start_clock(), 6u);
  EXPECT_EQ(join.rank(), 1u);
  change.mutable_finish()->set_clock(8);
  change.mutable_finish()->set_seals("seals");
  const v1::SessionChange finish = ToSessionChange(change);
  EXPECT_EQ(finish.action(), v1::SessionChange::FINISH);
  EXPECT_EQ(finish.clock(), 8u);
  EXPECT_EQ(finish.seals(), "seals");
  change.mutable_evict()->set_reason("silent");
  change.mutable_evict()->set_data_lost(true);
  const v1::SessionChange evict = ToSessionChange(change);
  EXPECT_EQ(evict.action(), v1::SessionChange::EVICT);
  EXPECT_EQ(evict.reason(), "silent");
  EXPECT_TRUE(evict.data_lost());
}

TEST(LevelOneTest, ChangesOfTables) {
  v1::Change change = About(v1::Subject::TABLE, 11);
  ASSERT_FALSE(IsOfSession(change));
  change.mutable_drop()->set_name("w");
  const v1::JobChange drop = ToJobChange(change);
  EXPECT_EQ(drop.action(), v1::JobChange::DROP_TABLE);
  EXPECT_EQ(drop.table().id(), 11u);
  EXPECT_EQ(drop.table().name(), "w");
  EXPECT_EQ(drop.job(), 2u);
  v1::Change::ChangeRule& rule = *change.mutable_rule();
  rule.mutable_table()->set_id(11);
  rule.set_number(3);
  rule.mutable_rule()->mutable_sgd()->set_learning_rate(2);
  rule.set_clock(12);
  rule.set_at_once(true);
  const v1::JobChange rates = ToJobChange(change);
  EXPECT_EQ(rates.action(), v1::JobChange::CHANGE_RULE);
  EXPECT_EQ(rates.table().id(), 11u);
  EXPECT_EQ(rates.number(), 3u);
  EXPECT_EQ(rates.rule().sgd().learning_rate(), 2);
  EXPECT_EQ(rates.clock(), 12u);
  EXPECT_TRUE(rates.at_once());
}

TEST(LevelOneTest, ChangesOfJobs) {
  v1::Change change = About(v1::Subject::JOB, 2);
  change.mutable_close()->add_tables(11);
  EXPECT_EQ(ToJobChange(change).action(), v1::JobChange::CLOSE_JOB);
  EXPECT_EQ(ToJobChange(change).tables(0), 11u);
  v1::Change::TakeCut& cut = *change.mutable_cut();
  cut.set_id(4);
  cut.set_snapshot("ctr-4");
  cut.set_clock(12);
  cut.set_exact(true);
  const v1::JobChange take = ToJobChange(change);
  EXPECT_EQ(take.action(), v1::JobChange::TAKE_CUT);
  EXPECT_EQ(take.cut(), 4u);
  EXPECT_EQ(take.snapshot(), "ctr-4");
  EXPECT_EQ(take.clock(), 12u);
  EXPECT_TRUE(take.exact());
  EXPECT_FALSE(take.at_once());
  v1::Change::LoadJob& load = *change.mutable_load();
  load.set_id(5);
  load.set_snapshot("ctr-4");
  load.set_clock(12);
  load.add_tables()->set_from(11);
  load.mutable_tables(0)->mutable_to()->set_id(12);
  const v1::JobChange again = ToJobChange(change);
  EXPECT_EQ(again.action(), v1::JobChange::LOAD_JOB);
  EXPECT_EQ(again.cut(), 5u);
  EXPECT_EQ(again.loads(0).from(), 11u);
  EXPECT_EQ(again.loads(0).to().id(), 12u);
}

TEST(LevelOneTest, Answers) {
  v1::SessionChangeReply session;
  session.add_committed(1);
  session.set_map_version(9);
  session.add_waits("3 of 4 parts");
  session.add_join_refused()->set_segment(6);
  session.mutable_join_refused(0)->set_min_clock(12);
  const v1::ChangeReply of_session = FromLevelOne(session);
  EXPECT_EQ(of_session.committed(0), 1u);
  EXPECT_EQ(of_session.map_version(), 9u);
  EXPECT_EQ(of_session.waits(0), "3 of 4 parts");
  EXPECT_EQ(of_session.passed(0).segment(), 6u);
  EXPECT_EQ(of_session.passed(0).clock(), 12u);
  v1::JobChangeReply job;
  job.add_passed()->set_clock(3);
  job.add_files()->set_name("segment-1");
  job.add_failures()->set_why("full");
  job.mutable_failures(0)->set_segment(2);
  job.mutable_failures(0)->set_lost(true);
  const v1::ChangeReply of_job = FromLevelOne(job);
  EXPECT_EQ(of_job.passed(0).clock(), 3u);
  EXPECT_EQ(of_job.files(0).name(), "segment-1");
  EXPECT_EQ(of_job.failures(0).why(), "full");
  EXPECT_EQ(of_job.failures(0).segment(), 2u);
  EXPECT_TRUE(of_job.failures(0).lost());
}

}  // namespace
}  // namespace paceline::coordinator
