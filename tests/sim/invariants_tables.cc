// Invariants of tables that are dropped, of rates that change, and of jobs that are deleted.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libs/clock/consistency.h"
#include "libs/log/keys.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {
namespace {

float LearningRate(const table::Rule& rule) {
  return std::get<table::Sgd>(rule).lr;
}

}  // namespace

void Invariants::On(const log::OpenTable& record, const log::Segment& after, SegmentLedger& ledger) {
  Dropped(ledger, after.id(), record.table->id, "OpenTable");
  if (truth_.PurposeOf(record.table->id) != Purpose::kRates) return;
  ledger.tables[record.table->id].rates[0] = {.clock = 0, .lr = LearningRate(record.table->schema.rule)};
}

void Invariants::On(const log::DropTable& record, const log::Segment& after, SegmentLedger& ledger) {
  if (!truth_.IsDropped(record.table)) {
    verdict_.Violated("Dropped", absl::StrCat("segment ", after.id().v, ": table ", record.table.v,
                                              " is dropped, though nobody has decided that"));
  }
  if (after.FindTable(record.table) != nullptr) {
    verdict_.Violated("Dropped",
                      absl::StrCat("segment ", after.id().v, ": table ", record.table.v, " is kept"));
  }
  ledger.tables[record.table].dropped = true;
}

void Invariants::On(const log::CloseJob& record, const log::Segment& after, SegmentLedger& ledger) {
  marks_.Hit("a job is closed");
  for (const TableId table : record.tables) On(log::DropTable{table}, after, ledger);
  ledger.closed[record.job] = ledger.MinClock(record.job);
  ledger.jobs.erase(record.job);
  for (const auto& [id, session] : ledger.sessions) {
    if (truth_.JobOf(id) != record.job || !session.opened || session.closed) continue;
    verdict_.Violated("Fenced", absl::StrCat("segment ", after.id().v, ": job ", record.job.v,
                                             " is closed, but session ", id.v, " of it is open"));
  }
}

void Invariants::On(const log::ChangeRule& record, const log::Segment& after, SegmentLedger& ledger) {
  Dropped(ledger, after.id(), record.table->id, "ChangeRule");
  Rates(ledger, after.id(), record);
  const bool again = ledger.tables[record.table->id].rates.contains(record.number);
  if (again) marks_.Hit("new rates are proposed again");
  ledger.tables[record.table->id].rates[record.number] = {.clock = record.clock,
                                                          .lr = LearningRate(record.rule)};
}

LoggedTable::Rows Invariants::RowsOf(const SegmentLedger& ledger, SegmentId segment, TableId table) const {
  const auto logged = ledger.tables.find(table);
  const bool any = logged != ledger.tables.end() && logged->second.rows != nullptr;
  return any ? *logged->second.rows : LoadedHere(segment, table);
}

// The rates of each update: those of the newest change that has begun at its clock. A session without a clock
// has the min clock.
void Invariants::Follow(const log::Update& record, SegmentId segment, SegmentLedger& ledger) {
  if (truth_.PurposeOf(record.table) != Purpose::kRates) return;
  const LoggedSession& session = ledger.sessions[record.session];
  const Clock clock = session.AtWork() ? record.clock : ledger.MinClock(truth_.JobOf(record.session));
  LoggedTable& table = ledger.tables[record.table];
  float lr = 0;
  for (const auto& [number, rates] : table.rates) {
    if (rates.clock > clock) continue;
    lr = rates.lr;
    rated_[{segment, record.session, record.number}] = number;
  }
  if (!table.rates.empty() && lr != table.rates.rbegin()->second.lr)
    marks_.Hit("an update follows older rates");
  const table::KeyView keys = log::Keys(record.keys);
  const table::ValueView values = log::Values(record.values);
  LoggedTable::Rows rows = RowsOf(ledger, segment, record.table);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<double>& row = rows[keys[i]];
    row.resize(kColumns);
    for (uint32_t c = 0; c < kColumns; ++c) row[c] -= double{lr} * values[i * kColumns + c];
  }
  table.rows = std::make_shared<const LoggedTable::Rows>(std::move(rows));
}

// Nothing of a table is logged after its end, nor held.
void Invariants::Dropped(const SegmentLedger& ledger, SegmentId segment, TableId table, const char* record) {
  const auto it = ledger.tables.find(table);
  if (it == ledger.tables.end() || !it->second.dropped) return;
  verdict_.Violated("Dropped", absl::StrCat("segment ", segment.v, ": ", record, " has table ", table.v,
                                            ", which was dropped"));
}

// New rates begin beyond every update of those who are at work, or, at once, at the min clock.
void Invariants::Rates(const SegmentLedger& ledger, SegmentId segment, const log::ChangeRule& change) {
  const JobId job = change.table->job;
  Clock first = ledger.MinClock(job);
  for (const auto& [id, session] : ledger.sessions) {
    if (!change.at_once && truth_.JobOf(id) == job && session.AtWork())
      first = std::max(first, session.next_clock);
  }
  if (change.at_once ? change.clock == first : change.clock >= first) return;
  verdict_.Violated("Rates", absl::StrCat("segment ", segment.v, ": change ", change.number, " of table ",
                                          change.table->id.v, " begins at clock ", change.clock,
                                          "; there are updates up to ", first));
}

// A table of rates holds what its updates come to, each by the rates of its clock; one of means its folds.
void Invariants::Replayed(const log::Segment& segment, const log::Segment::Table& table) {
  const auto ledger = ledgers_[segment.id().v].tables.find(table.info->id);
  if (ledger == ledgers_[segment.id().v].tables.end() || ledger->second.rows == nullptr) return;
  const bool rates = truth_.PurposeOf(table.info->id) == Purpose::kRates;
  std::vector<float> held(table.info->schema.dim);
  for (const auto& [key, row] : *ledger->second.rows) {
    table.rows.Read(table::KeyView(reinterpret_cast<const std::byte*>(&key), 1), held.data());
    for (size_t c = 0; c < held.size(); ++c) {
      if (static_cast<double>(held[c]) == row[c]) continue;
      verdict_.Violated(rates ? "Rates" : "Once",
                        absl::StrCat("segment ", segment.id().v, ": key ", key, " of table ",
                                     table.info->id.v, " holds ", held[c], ", its updates come to ", row[c]));
      return;
    }
  }
}

void Invariants::Meant(JobId job) {
  if (meant_.contains(job)) return;
  verdict_.Violated("Meant", absl::StrCat("job ", job.v, " is to be deleted, and no user meant it"));
}

void Invariants::OnDropDone(TableId table) {
  for (uint32_t s = 0; s < ledgers_.size(); ++s) {
    if (ledgers_[s].tables[table].dropped) continue;
    verdict_.Violated(
        "Dropped", absl::StrCat("table ", table.v, " counts as dropped everywhere, segment ", s, " has it"));
  }
}

void Invariants::Rated(const TrueRead& read, const sdk::CachedRow& row, uint32_t column, float value) {
  const SegmentLedger& ledger = ledgers_[row.segment.v];
  const auto logged = ledger.tables.find(row.table);
  if (truth_.Loaded(row.table) != nullptr || logged == ledger.tables.end()) return;
  const std::optional<float> sum = truth_.SumOf(
      row.table, row.key, column, [&](SessionId session, PartNumber number) -> std::optional<float> {
        const bool since = session == read.reader && number > row.own && number <= row.pushed;
        const auto of = ledger.sessions.find(session);
        const bool here = of != ledger.sessions.end() && number <= of->second.LsnsOf(Line::kArrival).size();
        if (!here || !rated_.contains({row.segment, session, number}))
          return since ? std::nullopt : std::optional<float>(0);
        const uint64_t change = rated_.at({row.segment, session, number});
        const LoggedTable::Rates& rates = logged->second.rates.at(change);
        const bool in_version = of->second.LsnsOf(Line::kArrival)[number - 1] <= row.version;
        if (in_version && !since) return -rates.lr;
        if (!since) return 0.0f;
        // It is not told of rates before they are agreed, and not of another clock that a segment has kept.
        const auto agreed = agreed_[row.table].find(change);
        const bool same =
            change == 0 || (agreed != agreed_[row.table].end() &&
                            agreed->second.clock == (agreed->second.clock == 0 ? 0 : rates.clock));
        return change <= read.changes_known && same ? std::optional<float>(-rates.lr) : std::nullopt;
      });
  if (!sum.has_value() || value == *sum) return;
  verdict_.Violated(
      "Rates", absl::StrCat("session ", read.reader.v, " reads ", value, " for the cached key ", row.key,
                            " of table ", row.table.v, " in segment ", row.segment.v, ", column ", column,
                            "; version ", row.version.v, " with parts ", row.own + 1, " to ", row.pushed,
                            " of its own is ", *sum, ", and it knows change ", read.changes_known));
}

void Invariants::Bound(SessionId session, TableId table, Clock reader, Clock bound, Clock most,
                       uint64_t known) {
  const auto violated = [&](const std::string& why) {
    verdict_.Violated("Bound",
                      absl::StrCat("session ", session.v, " reads table ", table.v, " at clock ", reader,
                                   " by the bound ", bound, ", and knows change ", known, ": ", why));
  };
  const std::map<uint64_t, Agreed>& agreed = agreed_[table];
  if (known > (agreed.empty() ? 0 : agreed.rbegin()->first)) return violated("no such change was agreed");
  Clock in_force = clock::kFirstBound, newest = clock::kFirstBound;
  for (const auto& [number, change] : agreed) {
    if (number > known) continue;
    newest = clock::BoundOf(change.bound);
    if (change.clock <= reader) in_force = newest;
  }
  // Where it was not told what is in force, a client takes that for the smallest.
  const bool meant = bound == std::min(most, std::max(in_force, newest)) || bound == std::min(most, newest);
  if (bound > clock::kFirstBound) marks_.Hit("a bound has grown");
  if (!meant) violated(absl::StrCat(in_force, " is in force, and ", newest, " is agreed"));
}

void Invariants::OnRatesDone(TableId table, uint64_t number, std::optional<Clock> clock, uint32_t bound) {
  agreed_[table][number] = {.clock = clock.value_or(0), .bound = bound};
  for (uint32_t s = 0; s < ledgers_.size(); ++s) {
    const auto& rates = ledgers_[s].tables[table].rates;
    const auto logged = rates.find(number);
    if (logged == rates.end()) {
      verdict_.Violated("Rates",
                        absl::StrCat("change ", number, " of table ", table.v,
                                     " counts as made everywhere, segment ", s, " has not logged it"));
    } else if (clock.has_value() && logged->second.clock > *clock) {
      verdict_.Violated("Rates",
                        absl::StrCat("change ", number, " of table ", table.v, " is to begin at ", *clock,
                                     ", in segment ", s, " it begins at ", logged->second.clock));
    } else if (clock.has_value() && logged->second.clock < *clock) {
      marks_.Hit("a segment keeps the clock of an earlier proposal");
    }
  }
}

}  // namespace paceline::sim
