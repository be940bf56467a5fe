#include "libs/log/segment.h"

#include "libs/base/planted.h"
#include "libs/log/keys.h"
#include "libs/ring/hash.h"

namespace paceline::log {
namespace {

std::unique_ptr<Segment::Table> MakeTable(std::shared_ptr<const TableInfo> info, int ring_bits) {
  const table::Schema& schema = info->schema;
  // The schema was validated when the table was created, so placing it cannot fail.
  const ring::Placement placement =
      schema.kind == table::Kind::kSparse
          ? ring::Placement::Sparse(info->id, ring_bits).value()
          : ring::Placement::Ranged(info->id, ring_bits, schema.rows, schema.dim).value();
  const TableId id = info->id;
  return std::unique_ptr<Segment::Table>(
      new Segment::Table{std::move(info), placement, table::TableStore(id, schema, ring_bits)});
}

}  // namespace

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
  sessions_.emplace(record.session, Session{.job = record.job, .applied = {}, .finished = false});
  closed_floor_ = std::max(closed_floor_, record.closed_floor);
  closed_.erase(closed_.begin(), closed_.upper_bound(closed_floor_));
  if (Planted(Bug::kSessionCollected) && sessions_.size() > 1) sessions_.erase(sessions_.begin());
}

void Segment::On(const Join& record, Effects&) {
  jobs_[sessions_.at(record.session).job].Join(record.session, record.start, record.rank);
}

void Segment::On(const Finish& record, Effects&) {
  Session& session = sessions_.at(record.session);
  session.finished = true;
  jobs_[session.job].Leave(record.session);
}

void Segment::On(const Evict& record, Effects&) {
  if (const auto it = sessions_.find(record.session); it != sessions_.end()) {
    jobs_[it->second.job].Leave(record.session);
    sessions_.erase(it);
  }
  if (record.session > closed_floor_) closed_.insert(record.session);
}

void Segment::On(const Advance& record, Effects&) {
  jobs_[record.job].Advance(record.min_clock);
}

void Segment::On(const Update& record, Effects& effects) {
  Session& session = sessions_.at(record.session);
  session.applied.At(record.line) = record.number;
  if (record.count == 0) return;
  Table& table = *tables_.at(record.table);
  const uint64_t bytes_before = table.rows.bytes();
  if (record.form == KeyForm::kKeys) {
    table.rows.Update(Keys(record.keys), Values(record.values), version_);
  } else {
    UpdateRanges(table, record);
  }
  effects.rows_updated = record.values.size() / (sizeof(float) * table.info->schema.dim);
  effects.bytes_grown = static_cast<int64_t>(table.rows.bytes()) - static_cast<int64_t>(bytes_before);
}

void Segment::UpdateRanges(Table& table, const Update& record) {
  const table::ValueView values = Values(record.values);
  const uint32_t dim = table.info->schema.dim;
  size_t row = 0;
  ForEachRange(record.keys, [&](uint64_t first, uint64_t count) {
    // The primary checked the range before it logged the record, so it can be cut.
    const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
    for (const ring::Piece& piece : pieces) {
      table.rows.UpdateRange(piece.first, piece.count, values.subview(row * dim, piece.count * dim),
                             version_);
      row += piece.count;
    }
  });
}

const Segment::Session* Segment::FindSession(SessionId session) const {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &it->second;
}

bool Segment::IsClosed(SessionId session) const {
  if (sessions_.contains(session)) return false;
  return session <= closed_floor_ || closed_.contains(session);
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

uint64_t Segment::Hash() const {
  uint64_t hash = version_.v;
  const auto mix = [&hash](uint64_t value) { hash = ring::Mix64(hash, value); };
  for (const auto& [id, session] : sessions_) {
    mix(id.v);
    mix(session.job.v);
    mix(session.finished ? 1 : 0);
    for (PartNumber number : session.applied.counts) mix(number);
  }
  for (SessionId id : closed_) mix(id.v);
  mix(closed_floor_.v);
  for (const auto& [id, job] : jobs_) {
    mix(id.v);
    mix(job.min_clock());
    for (const auto& [session, worker] : job.workers()) {
      mix(session.v);
      mix(worker.start);
      mix(worker.rank);
    }
  }
  for (const auto& [id, table] : tables_) {
    mix(id.v);
    mix(table->rows.Hash());
  }
  return hash;
}

}  // namespace paceline::log
