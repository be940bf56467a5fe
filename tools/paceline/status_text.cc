#include "tools/paceline/status_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/text.h"
#include "libs/clock/consistency.h"
#include "tools/paceline/columns.h"

namespace paceline::tool {
namespace {

std::string Seconds(uint64_t ms) {
  return absl::StrFormat("%.1f s", static_cast<double>(ms) / 1000);
}

std::string ClusterLine(const v1::StatusReply& status, absl::string_view coordinator) {
  const auto alive =
      std::count_if(status.shards().begin(), status.shards().end(), [](const auto& s) { return s.alive(); });
  const auto known =
      std::max<int64_t>(status.shards_size(), status.map_version() == 0 ? status.shards_wanted() : 0);
  if (status.standby()) {
    return absl::StrCat("Cluster at ", coordinator, ", version ", Escaped(status.version()), ": ",
                        status.leader().empty() ? "no coordinator leads"
                                                : absl::StrCat("the coordinator at ", status.leader(),
                                                               " was the last to lead, and does not answer"),
                        "\n");
  }
  return absl::StrCat("Cluster at ", coordinator, ", version ", status.version(), ": ", alive, " of ", known,
                      " shards alive, map version ", status.map_version(), ", ", status.segments(),
                      " segments\n");
}

// By name, shard-2 before shard-10.
std::vector<const v1::ShardStatus*> Sorted(const v1::StatusReply& status) {
  std::vector<const v1::ShardStatus*> shards;
  for (const v1::ShardStatus& shard : status.shards()) shards.push_back(&shard);
  std::ranges::sort(shards, {}, [](const v1::ShardStatus* shard) {
    return std::pair(shard->info().name().size(), shard->info().name());
  });
  return shards;
}

std::string Shards(const v1::StatusReply& status) {
  Columns columns({"SHARD", "ADDRESS", "STATE", ">PRIMARY", ">REPLICA", ">LEARNER", ">ROWS", ">MEMORY", ">OF",
                   ">PARKED", "METRICS"});
  for (const v1::ShardStatus* sorted : Sorted(status)) {
    const v1::ShardStatus& shard = *sorted;
    std::string state = shard.alive() ? "alive" : absl::StrCat("silent ", Seconds(shard.silent_ms()));
    if (shard.has_drain()) absl::StrAppend(&state, shard.drain().may_go() ? ", may go" : ", drains");
    const v1::BeatRequest& last = shard.last();
    std::vector<std::string> cells = {shard.info().name(),
                                      shard.info().address(),
                                      state,
                                      absl::StrCat(shard.primaries()),
                                      absl::StrCat(shard.replicas()),
                                      absl::StrCat(shard.learners())};
    if (shard.has_last()) {
      cells.insert(cells.end(), {absl::StrCat(last.rows()), BytesText(last.bytes()),
                                 BytesText(last.bytes_budget()), absl::StrCat(last.parked())});
    } else {
      cells.insert(cells.end(), 4, "-");  // nothing heard yet
    }
    cells.push_back(shard.metrics_address().empty() ? "-" : shard.metrics_address());
    columns.Add(std::move(cells));
  }
  return absl::StrCat("\nShards\n", columns.Text());
}

// What the processes of shards take beside the rows of their budgets.
std::string Memory(const v1::StatusReply& status) {
  Columns columns({"SHARD", ">RESIDENT", ">ROWS", ">STAGED", ">STREAMS", ">REPLIES", ">LOG", ">TO DISK",
                   ">ROCKSDB", ">FREED", ">OTHER"});
  bool any = false;
  for (const v1::ShardStatus* shard : Sorted(status)) {
    const v1::ShardMemory& memory = shard->last().memory();
    if (memory.resident() == 0) continue;
    any = true;
    const uint64_t known = shard->last().bytes() + memory.staged() + memory.streams() + memory.replies() +
                           memory.log() + memory.disk_queue() + memory.engine() + memory.allocator();
    columns.Add({shard->info().name(), BytesText(memory.resident()), BytesText(shard->last().bytes()),
                 BytesText(memory.staged()), BytesText(memory.streams()), BytesText(memory.replies()),
                 BytesText(memory.log()), BytesText(memory.disk_queue()), BytesText(memory.engine()),
                 BytesText(memory.allocator()),
                 BytesText(memory.resident() - std::min(memory.resident(), known))});
  }
  return any ? absl::StrCat("\nMemory\n", columns.Text()) : "";
}

std::string Replication(const v1::StatusReply& status) {
  if (status.replicas_wanted() == 0 && status.takeovers() == 0 && status.handovers() == 0) return "";
  return absl::StrCat("\nReplicas: ", status.replicas_wanted(), " wanted of each segment, ",
                      status.segments_under_replicated() == 0
                          ? std::string("none has fewer")
                          : absl::StrCat(status.segments_under_replicated(), " have fewer"),
                      "; so far ", status.takeovers(), " segments taken over, ", status.handovers(),
                      " handed over\n");
}

// "1 h 12 min", "12 min 5 s" or "5 s".
std::string DurationText(uint64_t ms) {
  const uint64_t s = (ms + 999) / 1000;
  if (s >= 3600) return absl::StrCat(s / 3600, " h ", s / 60 % 60, " min");
  if (s >= 60) return absl::StrCat(s / 60, " min ", s % 60, " s");
  return absl::StrCat(s, " s");
}

std::string Moves(const v1::StatusReply& status) {
  return status.has_moves() ? absl::StrCat("\nMoves: ", MovesText(status.moves()), "\n") : "";
}

bool AtWork(const v1::SessionStatus& session) {
  return session.state() == "worker" || session.state() == "finishing";
}

std::string Job(const v1::JobStatus& job) {
  uint64_t slowest = UINT64_MAX;
  for (const v1::SessionStatus& session : job.sessions()) {
    if (AtWork(session)) slowest = std::min(slowest, session.clock());
  }
  std::string text = absl::StrCat("\nJob ", Escaped(job.name()), ": min clock ", job.min_clock(), "\n");
  if (!job.data_lost().empty()) absl::StrAppend(&text, "  LACKS DATA: ", job.data_lost(), "\n");
  for (const v1::WorkStatus& work : job.work()) absl::StrAppend(&text, "  ", WorkText(work), "\n");
  if (job.sessions().empty()) return absl::StrCat(text, "  no session is open\n");
  Columns columns({">SESSION", "STATE", ">RANK", ">CLOCK", ">AHEAD", ">SILENT", "CLIENT"});
  for (const v1::SessionStatus& s : job.sessions()) {
    std::vector<std::string> cells = {absl::StrCat(s.session()), s.state(), "-", "-", "-",
                                      Seconds(s.silent_ms()),    s.client()};
    if (AtWork(s)) {
      cells[2] = absl::StrCat(s.rank());
      cells[3] = absl::StrCat(s.clock());
      cells[4] = absl::StrCat(s.clock() - slowest);  // of the slowest worker
    }
    columns.Add(std::move(cells));
  }
  return absl::StrCat(text, columns.Text());
}

// "ftrl_proximal", as the schema's field is called.
std::string RuleName(const v1::Rule& rule) {
  const auto* field = v1::Rule::descriptor()->FindFieldByNumber(rule.kind_case());
  return field == nullptr ? "-" : field->name();
}

std::string Tables(const v1::StatusReply& status) {
  if (status.tables().empty()) return "";
  std::map<uint32_t, std::string> jobs;
  for (const v1::JobStatus& job : status.jobs()) jobs[job.job()] = job.name();
  Columns columns({"TABLE", "JOB", ">DIM", ">KEYS", "RULE", "UPDATES"});
  for (const v1::Table& table : status.tables()) {
    const v1::TableSchema& schema = table.schema();
    const bool ranged = schema.kind() == v1::TABLE_KIND_RANGED;
    columns.Add({table.name(), jobs[table.job()], absl::StrCat(schema.dim()),
                 ranged ? absl::StrCat(schema.rows()) : "any", RuleName(schema.rule()),
                 schema.aggregated() ? "once per clock" : "on arrival"});
  }
  std::string text = absl::StrCat("\nTables\n", columns.Text());
  for (const v1::Table& table : status.tables()) {
    if (table.bound_max() > 0)
      absl::StrAppend(&text, "  ", table.name(), " of ", jobs[table.job()], ": ", BoundText(table), "\n");
    if (table.holds_back()) {
      absl::StrAppend(&text, "  ", table.name(), " of ", jobs[table.job()],
                      ": clients may hold back updates, which snapshots lack\n");
    }
  }
  return text;
}

std::string Problems(const v1::StatusReply& status) {
  std::string text = status.problems().empty() ? "\nNo problems.\n" : "\nProblems\n";
  for (const std::string& problem : status.problems()) absl::StrAppend(&text, "  - ", Escaped(problem), "\n");
  return text;
}

}  // namespace

std::string BytesText(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return absl::StrFormat(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string BoundText(const v1::Table& table) {
  return absl::StrCat("bound ", clock::BoundOf(table.bound(), table.bound_max()),
                      table.rule_clock() == 0 ? "" : absl::StrCat(" from clock ", table.rule_clock(), " on"),
                      ", at most ", table.bound_max(), ": it follows the waiting");
}

std::string WorkText(const v1::WorkStatus& work) {
  const uint64_t all = work.spec().examples() * work.spec().passes();
  const double percent =
      all == 0 ? 0 : 100.0 * static_cast<double>(work.examples_done()) / static_cast<double>(all);
  std::string text =
      absl::StrFormat("work %s: %.1f %% of %d examples in %d %s", Escaped(work.name()), percent, all,
                      work.spec().passes(), work.spec().passes() == 1 ? "pass" : "passes");
  if (work.examples_done() == all) {
    absl::StrAppend(&text, ", complete");
  } else {
    absl::StrAppend(&text, ", ", work.items_held(), " items with ", work.holders(), " workers, ",
                    work.items_begun(), " begun");
    if (work.examples_per_s() > 0) {
      absl::StrAppend(&text, absl::StrFormat(", %.1f examples/s, about %s left", work.examples_per_s(),
                                             DurationText(work.eta_ms())));
    }
  }
  const uint64_t again = work.again_begun() + work.again_perhaps();
  if (again > 0) {
    absl::StrAppend(&text, "; at most ", again, " trained twice (", work.again_begun(), " of items begun, ",
                    work.again_perhaps(), " of items that may have been)");
  }
  return text;
}

std::string MovesText(const v1::MoveStatus& moves) {
  std::string text = absl::StrCat(moves.copies(), " segments are being copied, ", moves.copies_left(),
                                  " wait; ", BytesText(moves.bytes_left()), " left");
  if (moves.bytes_per_s() > 0) {
    absl::StrAppend(&text, ", ", BytesText(moves.bytes_per_s()), " a second: about ",
                    moves.bytes_left() / moves.bytes_per_s() + 1, " s");
  }
  return text;
}

std::string LoadText(const v1::StatusReply& status) {
  const v1::LoadStatus& load = status.load();
  std::string text = absl::StrCat("Load: ", load.rows_per_s(), " rows a second");
  if (load.peak_percent() > 0) {
    absl::StrAppend(
        &text, absl::StrFormat("; the shard with most has %.2f of the mean", load.peak_percent() / 100.0));
  }
  absl::StrAppend(&text, "; ",
                  load.balances() ? absl::StrCat(load.moved(), " segments were moved by load")
                                  : "segments do not move by load",
                  "\n");
  for (const v1::LoadStatus::TooHot& hot : load.too_hot()) {
    std::string shard = absl::StrCat(hot.shard());
    std::string table = absl::StrCat(hot.key().table());
    for (const v1::ShardStatus& one : status.shards()) {
      if (one.info().shard() == hot.shard()) shard = one.info().name();
    }
    for (const v1::Table& one : status.tables()) {
      if (one.id() == hot.key().table()) table = one.name();
    }
    absl::StrAppend(
        &text, "  key ", hot.key().key(), " of table ", Escaped(table), " (segment ", hot.segment(), ", ",
        Escaped(shard), "): ", hot.key().rows_per_s(),
        " rows a second are too many for any move: a key is at one shard; cache it, or split it\n");
  }
  return text;
}

std::string StatusText(const v1::StatusReply& status, absl::string_view coordinator) {
  // A coordinator that stands by knows nothing of the cluster.
  if (status.standby()) return absl::StrCat(ClusterLine(status, coordinator), Problems(status));
  std::string text = absl::StrCat(ClusterLine(status, coordinator), Shards(status), Memory(status),
                                  Replication(status), Moves(status));
  if (status.load().rows_per_s() > 0) absl::StrAppend(&text, LoadText(status));
  for (const v1::JobStatus& job : status.jobs()) absl::StrAppend(&text, Job(job));
  return absl::StrCat(text, Tables(status), Problems(status));
}

}  // namespace paceline::tool
