#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "paceline/v1/control.pb.h"

// Builders for tests of segments.
namespace paceline::log {

// A change of a session; `clock` is where it joins or finishes.
inline v1::Change ChangeOf(v1::Change::ActionCase action, SessionId session, JobId job, Clock clock = 0,
                           uint32_t rank = 0) {
  v1::Change change;
  change.mutable_subject()->set_kind(v1::Subject::SESSION);
  change.mutable_subject()->set_id(session.v);
  change.set_job(job.v);
  if (action == v1::Change::kOpen) change.mutable_open();
  if (action == v1::Change::kJoin) change.mutable_join()->set_start_clock(clock);
  if (action == v1::Change::kJoin) change.mutable_join()->set_rank(rank);
  if (action == v1::Change::kFinish) change.mutable_finish()->set_clock(clock);
  if (action == v1::Change::kEvict) change.mutable_evict();
  return change;
}

inline constexpr TableId kSumTable{4};
inline constexpr TableId kFoldedTable{5};

// A sparse table of one value a key, to which updates are added.
inline std::shared_ptr<const TableInfo> SumTable(JobId job) {
  TableInfo info;
  info.id = kSumTable;
  info.job = job;
  info.name = "sum";
  info.schema.rule = table::Add{};
  return std::make_shared<const TableInfo>(std::move(info));
}

// The same, aggregated once per clock.
inline std::shared_ptr<const TableInfo> AggregatedTable(JobId job, bool mean = false) {
  TableInfo info;
  info.id = kFoldedTable;
  info.job = job;
  info.name = "folded";
  info.schema.rule = table::Add{};
  info.schema.aggregated = true;
  info.schema.mean = mean;
  return std::make_shared<const TableInfo>(std::move(info));
}

// A segment with open sessions of `job`, each a worker of the rank in the list, and the sum table.
inline Segment SegmentWith(JobId job, const std::vector<SessionId>& workers) {
  Segment segment(SegmentId(0), 0);
  uint32_t rank = 0;
  for (const SessionId session : workers) {
    segment.Apply(OpenSession{.session = session, .job = job, .closed_floor = {}, .secret_sha256 = {}});
    segment.Apply(Join{.session = session, .start = 0, .rank = rank++});
  }
  segment.Apply(OpenTable{SumTable(job)});
  return segment;
}

// A part that adds to rows of the sum table. Owns its memory.
inline Update MakeUpdate(SessionId session, PartNumber number, std::vector<std::pair<uint64_t, float>> rows,
                         Clock clock = 0) {
  struct Memory {
    std::string keys;
    std::string values;
  };
  auto memory = std::make_shared<Memory>();
  for (const auto& [key, value] : rows) {
    memory->keys.append(reinterpret_cast<const char*>(&key), sizeof(key));
    memory->values.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return {.session = session,
          .line = Line::kArrival,
          .number = number,
          .table = rows.empty() ? TableId() : kSumTable,
          .clock = clock,
          .form = KeyForm::kKeys,
          .count = static_cast<uint32_t>(rows.size()),
          .keys = memory->keys,
          .values = memory->values,
          .owner = memory};
}

}  // namespace paceline::log
