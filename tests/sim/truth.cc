#include "tests/sim/truth.h"

#include <algorithm>
#include <cstring>

namespace paceline::sim {
namespace {

template <class T>
std::vector<T> Unpack(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

std::vector<uint64_t> TruePart::Keys() const {
  const std::vector<uint64_t> entries = Unpack<uint64_t>(keys);
  if (!ranges) return entries;
  std::vector<uint64_t> all;
  for (size_t i = 0; i < entries.size(); i += 2) {
    for (uint64_t k = 0; k < entries[i + 1]; ++k) all.push_back(entries[i] + k);
  }
  return all;
}

void AddTo(TableRows& rows, const TruePart& part, uint32_t dim, bool assign) {
  const std::vector<uint64_t> keys = part.Keys();
  for (size_t k = 0; k < keys.size(); ++k) {
    std::vector<float>& row = rows[keys[k]];
    row.resize(dim);
    for (uint32_t d = 0; d < dim; ++d) {
      float value = 0;
      std::memcpy(&value, part.values.data() + (k * dim + d) * sizeof(value), sizeof(value));
      row[d] = assign ? value : row[d] + value;
    }
  }
}

PartNumber TrueSession::SealedAt(SegmentAndLine where, Clock clock) const {
  PartNumber sealed = 0;
  if (const auto it = late.find(where); it != late.end()) {
    for (const auto& [priority, part] : it->second) sealed += part.clock < clock ? 1 : 0;
  }
  const auto it = parts.find(where);
  if (it == parts.end()) return sealed;
  const auto end = std::lower_bound(it->second.begin(), it->second.end(), clock,
                                    [](const TruePart& part, Clock c) { return part.clock < c; });
  return sealed + static_cast<PartNumber>(end - it->second.begin());
}

PartNumber TrueSession::Last(SegmentAndLine where) const {
  const auto it = parts.find(where);
  return it == parts.end() ? 0 : it->second.size();
}

Purpose Truth::PurposeOf(TableId id) const {
  const auto it = tables_.find(id);
  return it == tables_.end() ? Purpose::kCounts : it->second.purpose;
}

const TableRows* Truth::Loaded(TableId table) const {
  const auto it = loaded_.find(table);
  return it == loaded_.end() ? nullptr : &it->second;
}

float Truth::LoadedOf(TableId table, uint64_t key, uint32_t column) const {
  const TableRows* rows = Loaded(table);
  if (rows == nullptr || !rows->contains(key)) return 0;
  const std::vector<float>& row = rows->at(key);
  return column < row.size() ? row[column] : 0;
}

bool Truth::Untouched(JobId job) const {
  return std::ranges::none_of(sessions_, [job](const auto& session) { return session.second.job == job; });
}

JobId Truth::JobNamed(const std::string& name) const {
  const auto it = jobs_.find(name);
  return it == jobs_.end() ? JobId() : it->second;
}

JobId Truth::JobOf(SessionId id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? JobId() : it->second.job;
}

TrueSession& Truth::Add(SessionId id, JobId job, const std::string& client) {
  TrueSession& session = sessions_[id];
  session.id = id;
  session.job = job;
  session.client = client;
  session.column = static_cast<uint32_t>(sessions_.size() - 1) % kColumns;
  return session;
}

TrueSession* Truth::Find(SessionId id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second;
}

uint64_t Truth::OnPush(SessionId id, Clock clock, const sdk::TableInfo& table, const sdk::Batch& batch,
                       bool valid, std::optional<uint32_t> late) {
  TrueSession& session = sessions_.at(id);
  ++now_;
  for (const sdk::Batch::Piece& piece : batch.pieces) {
    const absl::string_view piece_keys = batch.Keys(piece);
    const absl::string_view piece_values = batch.Values(piece);
    TruePart part{.clock = clock,
                  .table = table.id,
                  .keys = std::string(piece_keys.data(), piece_keys.size()),
                  .values = std::string(piece_values.data(), piece_values.size()),
                  .ranges = batch.ranges,
                  .push = now_,
                  .valid = valid};
    const SegmentAndLine where{piece.segment.v, table.line()};
    std::vector<TruePart>& line = session.parts[where];
    const std::vector<uint64_t> keys = part.Keys();
    const std::vector<float> values = Unpack<float>(part.values);
    const uint32_t column = PurposeOf(table.id) == Purpose::kAssigns ? 0 : session.column;
    const bool bounded = PurposeOf(table.id) != Purpose::kMeans;  // those have a replay of their own
    for (size_t i = 0; valid && bounded && i < keys.size(); ++i) {
      updates_[{table.id, keys[i]}].push_back({.session = id,
                                               .where = where,
                                               .number = late.has_value() ? 0 : line.size() + 1,
                                               .clock = clock,
                                               .column = column,
                                               .value = values[i * table.schema.dim + column],
                                               .pushed = now_});
    }
    if (late.has_value()) {
      session.late[where].emplace(*late, std::move(part));
    } else {
      line.push_back(std::move(part));
    }
    ++parts_;
  }
  return now_;
}

void Truth::OnNumbered(SessionId id, SegmentAndLine where, PartNumber number) {
  TrueSession& session = sessions_.at(id);
  std::vector<TruePart>& line = session.parts[where];
  auto& late = session.late[where];
  if (late.empty() || number != line.size() + 1) return;
  TruePart part = std::move(late.extract(late.begin()).mapped());
  for (uint64_t key : part.Keys()) {
    for (Update& update : updates_[{part.table, key}]) {
      const bool same = update.session == id && update.where == where && update.pushed == part.push;
      if (same) update.number = number;
    }
  }
  line.push_back(std::move(part));
}

void Truth::OnRowsWanted(SessionId id, const sdk::TableInfo& table, const sdk::Batch& batch) {
  TrueSession& session = sessions_.at(id);
  const auto of_table = [&table](const auto& late) { return late.second.table == table.id; };
  for (const sdk::Batch::Piece& piece : batch.pieces) {
    const SegmentAndLine where{piece.segment.v, table.line()};
    while (std::ranges::any_of(session.late[where], of_table)) {
      OnNumbered(id, where, session.Last(where) + 1);
    }
  }
}

void Truth::OnRefused(SessionId id, uint64_t push) {
  for (auto& [where, parts] : sessions_.at(id).parts) {
    for (TruePart& part : parts) {
      if (part.push == push) part.may_be_empty = true;
    }
  }
  for (auto& [where, parts] : sessions_.at(id).late) {
    for (auto& [priority, part] : parts) {
      if (part.push == push) part.may_be_empty = true;
    }
  }
}

void Truth::OnEmptied(SessionId id, SegmentAndLine where, PartNumber number) {
  TrueSession* session = Find(id);
  if (session == nullptr || number > session->Last(where)) return;
  TruePart& part = session->parts[where][number - 1];
  part.valid = false;
  for (uint64_t key : part.Keys()) {
    std::erase_if(updates_[{part.table, key}], [&](const Update& update) {
      return update.session == id && update.where == where && update.number == number;
    });
  }
}

void Truth::OnAcked(SessionId id, SegmentAndLine where, PartNumber upto) {
  std::vector<TruePart>& line = sessions_.at(id).parts[where];
  ++now_;
  for (PartNumber n = std::min<PartNumber>(upto, line.size()); n > 0 && !line[n - 1].acked; --n) {
    TruePart& part = line[n - 1];
    part.acked = true;
    ++parts_acked_;
    if (!part.valid) continue;
    for (uint64_t key : part.Keys()) {
      for (Update& update : updates_[{part.table, key}]) {
        const bool same = update.session == id && update.where == where && update.number == n;
        if (same) update.acked = now_;
      }
    }
  }
}

Bounds Truth::BoundsOf(const TrueRead& read, uint64_t key, uint32_t column) const {
  const float loaded = LoadedOf(read.table, key, column);
  Bounds bounds{.own = loaded, .acked = loaded, .clock = loaded, .most = loaded};
  const auto it = updates_.find({read.table, key});
  if (it == updates_.end()) return bounds;
  const bool assigned = PurposeOf(read.table) == Purpose::kAssigns;
  for (const Update& update : it->second) {
    if (update.column != column) continue;
    const auto hold = [&](float& bound) { bound = assigned ? update.value : bound + update.value; };
    const TrueSession& session = sessions_.at(update.session);
    hold(bounds.most);
    if (read.own_writes && update.session == read.reader && update.pushed <= read.made) hold(bounds.own);
    // A cached row was read before the updates of others were acknowledged.
    if (update.acked <= read.made && !read.cached.contains(key)) hold(bounds.acked);
    // Of one who was evicted only a prefix counts; who joined later pushes nothing of clocks passed.
    if (session.worker && !session.closing && update.clock < read.min_clock) hold(bounds.clock);
  }
  return bounds;
}

void TrueRead::NotePieces(const std::vector<float>& values, uint64_t now) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (values[i * (values.size() / keys.size())] != -1) handed_at.try_emplace(keys[i], now);
  }
}

std::optional<float> Truth::MissingOf(const TrueRead& read, uint64_t key, uint32_t column,
                                      float value) const {
  const auto it = updates_.find({read.table, key});
  if (it == updates_.end()) return std::nullopt;
  const auto handed = read.handed_at.find(key);
  const uint64_t at = handed == read.handed_at.end() ? *read.bounded_at : handed->second;
  std::optional<SessionId> by;
  float pushed = LoadedOf(read.table, key, column);
  for (const Update& update : it->second) {
    if (update.column != column || update.value == 0) continue;
    const TrueSession& session = sessions_.at(update.session);
    if (!session.bounded || session.closing || by.value_or(session.id) != session.id) return std::nullopt;
    by = session.id;
    if (update.pushed <= at) pushed += update.value;
  }
  if (!by.has_value()) return std::nullopt;
  return pushed - value;
}

float Truth::ValueOf(
    TableId table, uint64_t key, uint32_t column,
    absl::FunctionRef<std::optional<Lsn>(SessionId session, Line line, PartNumber number)> holds) const {
  float value = LoadedOf(table, key, column);
  const auto it = updates_.find({table, key});
  if (it == updates_.end()) return value;
  std::map<Lsn, float> by_lsn;
  for (const Update& update : it->second) {
    if (update.column != column) continue;
    const std::optional<Lsn> lsn = holds(update.session, update.where.second, update.number);
    if (lsn.has_value()) by_lsn[*lsn] += update.value;
  }
  for (const auto& [lsn, update] : by_lsn)
    value = PurposeOf(table) == Purpose::kAssigns ? update : value + update;
  return value;
}

std::optional<float> Truth::SumOf(
    TableId table, uint64_t key, uint32_t column,
    absl::FunctionRef<std::optional<float>(SessionId session, PartNumber number)> factor) const {
  float sum = 0;
  const auto it = updates_.find({table, key});
  if (it == updates_.end()) return sum;
  for (const Update& update : it->second) {
    if (update.column != column) continue;
    const std::optional<float> times = factor(update.session, update.number);
    if (!times.has_value()) return std::nullopt;
    sum += *times * update.value;
  }
  return sum;
}

float Truth::ExactlyOf(const TrueRead& read, uint64_t key, uint32_t column, CountsBelow counts_below) const {
  float sum = LoadedOf(read.table, key, column);
  const auto it = updates_.find({read.table, key});
  if (it == updates_.end()) return sum;
  for (const Update& update : it->second) {
    if (update.column != column || update.clock >= read.min_clock) continue;
    if (update.clock < counts_below(update.session, update.where.first)) sum += update.value;
  }
  return sum;
}

}  // namespace paceline::sim
