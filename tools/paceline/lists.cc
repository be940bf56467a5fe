#include "tools/paceline/lists.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/paceline/columns.h"
#include "tools/paceline/rates.h"
#include "tools/paceline/status_text.h"

namespace paceline::tool {

const v1::JobStatus* FindJob(const v1::StatusReply& status, const std::string& job) {
  for (const v1::JobStatus& one : status.jobs()) {
    if (one.name() == job) return &one;
  }
  return nullptr;
}

const v1::Table* FindTable(const v1::StatusReply& status, const std::string& job, const std::string& table) {
  const v1::JobStatus* of = FindJob(status, job);
  for (const v1::Table& one : status.tables()) {
    if (of != nullptr && one.job() == of->job() && one.name() == table) return &one;
  }
  return nullptr;
}

std::string JobsText(const v1::StatusReply& status) {
  if (status.jobs().empty()) return "No jobs.\n";
  Columns columns(
      {"JOB", ">ID", ">SESSIONS", ">WORKERS", ">MIN CLOCK", ">TABLES", ">ROWS", ">MEMORY", "STATE"});
  for (const v1::JobStatus& job : status.jobs()) {
    const auto workers = std::count_if(job.sessions().begin(), job.sessions().end(),
                                       [](const auto& session) { return session.state() == "worker"; });
    const auto tables = std::count_if(status.tables().begin(), status.tables().end(),
                                      [&job](const auto& table) { return table.job() == job.job(); });
    columns.Add({job.name(), absl::StrCat(job.job()), absl::StrCat(job.sessions_size()),
                 absl::StrCat(workers), absl::StrCat(job.min_clock()), absl::StrCat(tables),
                 absl::StrCat(job.rows()), BytesText(job.bytes()), job.deleting() ? "deleting" : "open"});
  }
  std::string text = columns.Text();
  for (const v1::JobStatus& job : status.jobs()) {
    if (!job.data_lost().empty())
      absl::StrAppend(&text, "Job ", job.name(), " LACKS DATA: ", job.data_lost(), "\n");
    for (const v1::WorkStatus& work : job.work())
      absl::StrAppend(&text, "Job ", job.name(), ": ", WorkText(work), "\n");
  }
  return text;
}

std::string TablesText(const v1::StatusReply& status, const std::string& job) {
  std::map<uint32_t, std::string> jobs;
  for (const v1::JobStatus& one : status.jobs()) jobs[one.job()] = one.name();
  Columns columns({"TABLE", ">ID", "JOB", ">DIM", ">KEYS", "UPDATES", "RULE", ">SINCE CLOCK"});
  bool some = false;
  for (const v1::Table& table : status.tables()) {
    if (!job.empty() && jobs[table.job()] != job) continue;
    some = true;
    const v1::TableSchema& schema = table.schema();
    columns.Add({table.name(), absl::StrCat(table.id()), jobs[table.job()], absl::StrCat(schema.dim()),
                 schema.kind() == v1::TABLE_KIND_RANGED ? absl::StrCat(schema.rows()) : "any",
                 schema.aggregated() ? "once per clock" : "on arrival", RuleText(schema.rule()),
                 table.rule_clock() == 0 || table.only_bound() ? "-" : absl::StrCat(table.rule_clock())});
  }
  return some ? columns.Text() : "No tables.\n";
}

std::string StateText(const v1::ShardStatus& shard) {
  const std::string state = shard.alive() ? "alive" : "silent";
  if (!shard.has_drain()) return state;
  return absl::StrCat(state, ", ", shard.drain().may_go() ? "may go" : "drains");
}

std::string ShardsText(const v1::StatusReply& status) {
  if (status.shards().empty()) return "No shards.\n";
  Columns columns({"SHARD", ">ID", "ADDRESS", "STATE", ">PRIMARIES", ">REPLICAS", ">LEARNERS"});
  for (const v1::ShardStatus& shard : status.shards()) {
    columns.Add({shard.info().name(), absl::StrCat(shard.info().shard()), shard.info().address(),
                 StateText(shard), absl::StrCat(shard.primaries()), absl::StrCat(shard.replicas()),
                 absl::StrCat(shard.learners())});
  }
  return columns.Text();
}

std::string DrainText(const v1::DrainShardsReply& reply, const v1::MoveStatus& moves) {
  std::string text;
  for (const auto& shard : reply.shards()) {
    const v1::DrainStatus& drain = shard.drain();
    if (!shard.has_drain()) {
      absl::StrAppend(&text, shard.shard(), " does not drain\n");
    } else if (drain.may_go()) {
      absl::StrAppend(&text, shard.shard(), " has nothing any more: it may go\n");
    } else if (!drain.waits_for().empty()) {
      absl::StrAppend(&text, shard.shard(), " drains and waits: ", drain.waits_for(), "\n");
    } else {
      absl::StrAppend(&text, shard.shard(), " drains: ", drain.segments_left(), " segments left, ",
                      BytesText(drain.bytes_left()), "\n");
    }
  }
  if (moves.copies() + moves.copies_left() > 0) absl::StrAppend(&text, "  ", MovesText(moves), "\n");
  return text;
}

std::string HandOverText(const std::string& shard, const v1::HandOverShardReply& reply) {
  std::string text = absl::StrCat(reply.handed_over(), " segments of ", shard, " were handed over\n");
  if (reply.kept().empty()) return absl::StrCat(text, shard, " is primary of no segment now\n");
  absl::StrAppend(&text, "These stay with it:\n");
  for (const std::string& kept : reply.kept()) absl::StrAppend(&text, "  - ", kept, "\n");
  return text;
}

namespace {

std::string Numbers(const std::vector<uint32_t>& segments) {
  std::string text;
  for (size_t i = 0; i < segments.size();) {
    size_t end = i;
    while (end + 1 < segments.size() && segments[end + 1] == segments[end] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ", ", segments[i]);
    if (end > i) absl::StrAppend(&text, "-", segments[end]);
    i = end + 1;
  }
  return text;
}

std::string LossOf(const v1::RecoverSegmentsReply::Segment& segment) {
  const std::string awaited = absl::StrJoin(segment.awaited(), ", ");
  const std::string restarted = absl::StrJoin(segment.restarted(), ", ");
  const std::string empty = "they begin empty, and the sessions of all jobs end";
  if (segment.nothing_found() && awaited.empty()) {
    return absl::StrCat("no shard has them any more (", restarted, " had); ", empty);
  }
  if (restarted.empty()) return absl::StrCat(awaited, " had them and is awaited. Without it ", empty);
  return absl::StrCat(awaited, " is awaited. Without it they continue from the disk of ", restarted,
                      ", and what only ", awaited, " had is lost. If ", restarted, " has nothing, ", empty);
}

}  // namespace

std::string LossText(const v1::RecoverSegmentsReply& reply) {
  std::map<std::string, std::vector<uint32_t>> losses;
  for (const auto& segment : reply.waiting()) losses[LossOf(segment)].push_back(segment.segment());
  std::string text;
  for (const auto& [loss, segments] : losses) {
    absl::StrAppend(&text, "segments ", Numbers(segments), ": ", loss, "\n");
  }
  return text;
}

}  // namespace paceline::tool
