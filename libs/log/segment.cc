#include "libs/log/segment.h"

#include <algorithm>

#include "libs/base/planted.h"
#include "libs/log/keys.h"

namespace paceline::log {

std::unique_ptr<Segment::Table> Segment::MakeTable(std::shared_ptr<const TableInfo> info, int ring_bits) {
  const table::Schema& schema = info->schema;
  // The schema was validated when the table was created, so making its placement cannot fail.
  const ring::Placement placement =
      schema.kind == table::Kind::kSparse
          ? ring::Placement::Sparse(info->id, ring_bits).value()
          : ring::Placement::Ranged(info->id, ring_bits, schema.rows, schema.dim).value();
  const TableId id = info->id;
  return std::unique_ptr<Segment::Table>(new Segment::Table{
      std::move(info), placement, table::TableStore(id, schema, ring_bits), RuleSchedule(schema.rule)});
}

Effects Segment::Apply(const Record& record) {
  version_.v += 1;
  Effects effects;
  std::visit([&](const auto& r) { On(r, effects); }, record);
  return effects;
}

void Segment::On(const OpenTable& record, Effects& effects) {
  const auto [it, opened] = tables_.emplace(record.table->id, MakeTable(record.table, ring_bits_));
  if (opened) effects.bytes_grown = static_cast<int64_t>(it->second->rows.bytes());
}

void Segment::On(const OpenSession& record, Effects&) {
  sessions_.emplace(record.session,
                    SessionState{.job = record.job, .applied = {}, .secret_sha256 = record.secret_sha256});
  closed_floor_ = std::max(closed_floor_, record.closed_floor);
  closed_.erase(closed_.begin(), closed_.upper_bound(closed_floor_));
  if (Planted(Bug::kSessionCollected) && sessions_.size() > 1) sessions_.erase(sessions_.begin());
}

void Segment::On(const Join& record, Effects&) {
  jobs_[sessions_.at(record.session).job].Join(record.session, record.start, record.rank);
}

void Segment::On(const Finish& record, Effects&) {
  SessionState& session = sessions_.at(record.session);
  session.finished = true;
  jobs_[session.job].Finish(record.session, record.clock);
}

void Segment::On(const Evict& record, Effects&) {
  if (const auto it = sessions_.find(record.session); it != sessions_.end()) {
    jobs_[it->second.job].Leave(record.session);
    sessions_.erase(it);
  }
  if (record.session > closed_floor_) closed_.insert(record.session);
  if (!record.data_lost) return;
  lost_.insert(record.session);
  if (lost_.size() > kLostMax) lost_.erase(lost_.begin());
}

void Segment::On(const Advance& record, Effects&) {
  jobs_[record.job].Advance(record.min_clock);
}

void Segment::On(const Update& record, Effects& effects) {
  SessionState& session = sessions_.at(record.session);
  session.applied.At(record.line) = record.number;
  if (record.count == 0) return;
  Table& table = *tables_.at(record.table);
  // Updates by a session that is not a worker use the rates of the min clock.
  const clock::JobClock& clock = jobs_[session.job];
  const bool worker = clock.HasWorker(record.session);
  UseRulesOf(table, worker ? std::max(record.clock, clock.min_clock()) : clock.min_clock());
  session.next_clock = std::max(session.next_clock, record.clock + 1);
  const uint64_t bytes_before = table.rows.bytes();
  if (record.form == KeyForm::kKeys) {
    table.rows.Update(Keys(record.keys), Values(record.values), version_);
  } else {
    UpdateRanges(table, record);
  }
  effects.rows_updated = record.values.size() / (sizeof(float) * table.info->schema.dim);
  effects.bytes_grown = static_cast<int64_t>(table.rows.bytes()) - static_cast<int64_t>(bytes_before);
}

void Segment::On(const Fold& record, Effects& effects) {
  for (const FoldedRows& rows : record.tables) {
    Table& table = *tables_.at(rows.table);
    UseRulesOf(table, record.clock);
    table::TableStore& store = table.rows;
    const uint64_t bytes_before = store.bytes();
    store.Update(rows.keys, rows.values, version_);
    effects.rows_updated += rows.keys.size();
    effects.bytes_grown += static_cast<int64_t>(store.bytes()) - static_cast<int64_t>(bytes_before);
  }
  for (const auto& [session, number] : record.numbers) {
    sessions_.at(session).applied.At(Line::kAggregated) = number;
  }
  jobs_[record.job].Advance(record.clock + 1);
}

void Segment::On(const DropTable& record, Effects& effects) {
  Drop(record.table, effects);
}

void Segment::On(const ChangeRule& record, Effects&) {
  Table& table = *tables_.at(record.table->id);
  table.rules.Forget(MinClockOf(record.table->job));
  table.rules.Change(record.number, record.rule, record.clock, record.bound);
}

void Segment::On(const CloseJob& record, Effects& effects) {
  for (TableId table : record.tables) Drop(table, effects);
  jobs_.erase(record.job);
  snapshots_.erase(record.job);
}

void Segment::On(const BeginEpoch& record, Effects&) {
  epoch_ = record.epoch;
}

void Segment::On(const Cut& record, Effects&) {
  snapshots_[record.job].cut = record.id;
}

void Segment::On(const Load& record, Effects& effects) {
  table::TableStore& store = tables_.at(record.table)->rows;
  const uint64_t bytes_before = store.bytes();
  store.Put(record.keys, record.rows, version_);
  effects.rows_updated = record.keys.size();
  effects.bytes_grown = static_cast<int64_t>(store.bytes()) - static_cast<int64_t>(bytes_before);
}

void Segment::On(const EndLoad& record, Effects&) {
  snapshots_[record.job].loaded = record.id;
  jobs_[record.job].Advance(record.clock);
}

void Segment::On(const BeginChange& record, Effects&) {
  changes_.Begin(record);
}

void Segment::Drop(TableId table, Effects& effects) {
  dropped_.Add(table.v);
  const auto it = tables_.find(table);
  if (it == tables_.end()) return;
  effects.bytes_grown -= static_cast<int64_t>(it->second->rows.bytes());
  tables_.erase(it);
}

void Segment::UseRulesOf(Table& table, Clock clock) {
  const RuleSchedule::Period& period =
      Planted(Bug::kRatesByArrival) ? table.rules.periods().back() : table.rules.At(clock);
  if (period.number == table.rule_in_use) return;
  table.rows.UseRule(period.rule);
  table.rule_in_use = period.number;
}

void Segment::UpdateRanges(Table& table, const Update& record) {
  const table::ValueView values = Values(record.values);
  const uint32_t dim = table.info->schema.dim;
  size_t row = 0;
  ForEachRange(record.keys, [&](uint64_t first, uint64_t count) {
    // The primary checked the range before it logged the record, so ForRange cannot fail.
    const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
    for (const ring::Piece& piece : pieces) {
      table.rows.UpdateRange(piece.first, piece.count, values.subview(row * dim, piece.count * dim),
                             version_);
      row += piece.count;
    }
  });
}

const Segment::SessionState* Segment::FindSession(SessionId session) const {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &it->second;
}

Clock Segment::MinClockOf(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? 0 : it->second.min_clock();
}

Clock Segment::NextClockOf(JobId job) const {
  const auto it = jobs_.find(job);
  Clock next = 0;
  if (it == jobs_.end()) return next;
  for (const auto& [session, worker] : it->second.workers()) {
    next = std::max(next, sessions_.at(session).next_clock);
  }
  return next;
}

Segment::SnapshotIds Segment::SnapshotsOf(JobId job) const {
  const auto it = snapshots_.find(job);
  return it == snapshots_.end() ? SnapshotIds() : it->second;
}

bool Segment::IsClosed(SessionId session) const {
  if (sessions_.contains(session)) return false;
  return session <= closed_floor_ || closed_.contains(session);
}

Segment::HighestIds Segment::Highest() const {
  HighestIds highest;
  highest.session = closed_floor_;
  if (!sessions_.empty()) highest.session = std::max(highest.session, sessions_.rbegin()->first);
  if (!closed_.empty()) highest.session = std::max(highest.session, *closed_.rbegin());
  if (!jobs_.empty()) highest.job = jobs_.rbegin()->first;
  for (const auto& [id, session] : sessions_) highest.job = std::max(highest.job, session.job);
  if (!tables_.empty()) highest.table = tables_.rbegin()->first;
  const auto& dropped = dropped_.ranges();
  if (!dropped.empty()) highest.table = std::max(highest.table, TableId(dropped.rbegin()->second));
  highest.change = changes_.Highest();
  return highest;
}

const Segment::Table* Segment::FindTable(TableId table) const {
  const auto it = tables_.find(table);
  return it == tables_.end() ? nullptr : it->second.get();
}

void Segment::ForgetSoftState() {
  for (auto& [id, job] : jobs_) job.ForgetTicks();
  if (!Planted(Bug::kNumbersLostInMove)) return;
  for (auto& [id, session] : sessions_) session.applied = {};
}

void Segment::BeginCopy(JobId job, const std::shared_ptr<table::CopyMemory>& memory) {
  for (const auto& [id, table] : tables_) {
    if (table->info->job == job) table->rows.BeginCopy(memory);
  }
}

absl::StatusOr<bool> Segment::NextOfCopy(JobId job, table::CopiedRows* out) {
  for (const auto& [id, table] : tables_) {
    if (table->info->job != job) continue;
    absl::StatusOr<bool> next = table->rows.NextOfCopy(out);
    if (!next.ok() || *next) return next;
  }
  return false;
}

void Segment::EndCopy(JobId job) {
  for (const auto& [id, table] : tables_) {
    if (table->info->job == job) table->rows.EndCopy();
  }
}

uint64_t Segment::rows() const {
  uint64_t sum = 0;
  for (const auto& [id, table] : tables_) sum += table->rows.rows();
  return sum;
}

uint64_t Segment::bytes() const {
  uint64_t sum = 0;
  for (const auto& [id, table] : tables_) sum += table->rows.bytes();
  return sum;
}

}  // namespace paceline::log
