#include "services/coordinator/level_one.h"

namespace paceline::coordinator {
namespace {

template <class To>
To Addressed(const v1::Change& change) {
  To to;
  to.set_cluster(change.cluster());
  if (change.has_target()) *to.mutable_target() = change.target();
  to.set_map_version(change.map_version());
  to.set_job(change.job());
  return to;
}

template <class Reply>
v1::ChangeReply Answered(const Reply& reply) {
  v1::ChangeReply out;
  *out.mutable_committed() = reply.committed();
  out.set_map_version(reply.map_version());
  *out.mutable_waits() = reply.waits();
  return out;
}

void AddPassed(uint32_t segment, uint64_t clock, v1::ChangeReply& out) {
  out.add_passed()->set_segment(segment);
  out.mutable_passed()->rbegin()->set_clock(clock);
}

}  // namespace

bool IsOfSession(const v1::Change& change) {
  return change.subject().kind() == v1::Subject::SESSION;
}

v1::SessionChange ToSessionChange(const v1::Change& change) {
  auto to = Addressed<v1::SessionChange>(change);
  to.set_session(change.subject().id());
  if (change.has_open()) {
    to.set_action(v1::SessionChange::OPEN);
    to.set_closed_floor(change.open().closed_floor());
    to.set_secret_sha256(change.open().secret_sha256());
  } else if (change.has_join()) {
    to.set_action(v1::SessionChange::JOIN);
    to.set_start_clock(change.join().start_clock());
    to.set_rank(change.join().rank());
  } else if (change.has_finish()) {
    to.set_action(v1::SessionChange::FINISH);
    to.set_seals(change.finish().seals());
    to.set_clock(change.finish().clock());
  } else {
    to.set_action(v1::SessionChange::EVICT);
    to.set_reason(change.evict().reason());
    to.set_data_lost(change.evict().data_lost());
  }
  return to;
}

v1::JobChange ToJobChange(const v1::Change& change) {
  auto to = Addressed<v1::JobChange>(change);
  if (change.has_drop()) {
    to.set_action(v1::JobChange::DROP_TABLE);
    to.mutable_table()->set_id(static_cast<uint32_t>(change.subject().id()));
    to.mutable_table()->set_job(change.job());
    to.mutable_table()->set_name(change.drop().name());
  } else if (change.has_rule()) {
    to.set_action(v1::JobChange::CHANGE_RULE);
    *to.mutable_table() = change.rule().table();
    to.set_number(change.rule().number());
    *to.mutable_rule() = change.rule().rule();
    to.set_clock(change.rule().clock());
    to.set_at_once(change.rule().at_once());
  } else if (change.has_close()) {
    to.set_action(v1::JobChange::CLOSE_JOB);
    *to.mutable_tables() = change.close().tables();
  } else if (change.has_cut()) {
    to.set_action(v1::JobChange::TAKE_CUT);
    to.set_cut(change.cut().id());
    to.set_snapshot(change.cut().snapshot());
    to.set_clock(change.cut().clock());
    to.set_at_once(change.cut().at_once());
    to.set_exact(change.cut().exact());
  } else {
    to.set_action(v1::JobChange::LOAD_JOB);
    to.set_cut(change.load().id());
    to.set_snapshot(change.load().snapshot());
    to.set_clock(change.load().clock());
    for (const v1::Change::LoadJob::Table& table : change.load().tables()) {
      v1::JobChange::Load& load = *to.add_loads();
      load.set_from(table.from());
      *load.mutable_to() = table.to();
    }
  }
  return to;
}

v1::ChangeReply FromLevelOne(const v1::SessionChangeReply& reply) {
  v1::ChangeReply out = Answered(reply);
  for (const auto& behind : reply.join_refused()) AddPassed(behind.segment(), behind.min_clock(), out);
  return out;
}

v1::ChangeReply FromLevelOne(const v1::JobChangeReply& reply) {
  v1::ChangeReply out = Answered(reply);
  for (const auto& passed : reply.passed()) AddPassed(passed.segment(), passed.clock(), out);
  *out.mutable_files() = reply.files();
  for (const v1::JobChangeReply::Failure& failure : reply.failures()) {
    v1::ChangeReply::Failure& to = *out.add_failures();
    to.set_segment(failure.segment());
    to.set_why(failure.why());
    to.set_lost(failure.lost());
  }
  return out;
}

}  // namespace paceline::coordinator
