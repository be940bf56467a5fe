#include "libs/log/staging.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "libs/base/planted.h"
#include "libs/log/keys.h"

namespace paceline::log {
namespace {

// Sums up the rows of one table. Workers of a dense table push the same ranges: as long as all ranges are
// equal or disjoint, they are added as a whole, and no row is looked up.
class Sums {
 public:
  explicit Sums(std::shared_ptr<const TableInfo> table) : table_(std::move(table)) {}

  void Add(const Update& update) {
    table::ValueView left = Values(update.values);
    const auto take = [&](size_t rows) {
      const table::ValueView taken = left.subview(0, rows * dim());
      left = left.subview(rows * dim(), left.size() - rows * dim());
      return taken;
    };
    if (update.form == KeyForm::kKeys) {
      const table::KeyView keys = Keys(update.keys);
      for (size_t i = 0; i < keys.size(); ++i) AddRow(keys[i], take(1));
      return;
    }
    ForEachRange(update.keys, [&](uint64_t first, uint64_t count) { AddRange(first, count, take(count)); });
  }

  FoldedRows Finish(size_t members) && {
    if (table_->schema.mean) {
      const auto divisor = static_cast<float>(members);
      for (float& value : sums_) value = value / divisor;
    }
    return {.table = table_->id, .keys = std::move(keys_), .values = std::move(sums_)};
  }

 private:
  struct Range {
    uint64_t count = 0;
    size_t place = 0;  // of its first row
  };

  uint32_t dim() const { return table_->schema.dim; }

  void AddRange(uint64_t first, uint64_t count, table::ValueView rows) {
    const auto next = ranges_.lower_bound(first);
    if (next != ranges_.end() && next->first == first && next->second.count == count) {
      return AddTo(next->second.place, rows);
    }
    const bool apart =
        (next == ranges_.end() || next->first - first >= count) &&
        (next == ranges_.begin() || first - std::prev(next)->first >= std::prev(next)->second.count);
    if (!by_row_ && apart) {
      ranges_.emplace_hint(next, first, Range{.count = count, .place = keys_.size()});
      for (uint64_t i = 0; i < count; ++i) keys_.push_back(first + i);
      return Append(rows);
    }
    for (uint64_t i = 0; i < count; ++i) AddRow(first + i, rows.subview(i * dim(), dim()));
  }

  void AddRow(uint64_t key, table::ValueView row) {
    if (!by_row_) LookUpRows();
    const auto [it, first] = places_.try_emplace(key, keys_.size());
    if (!first) return AddTo(it->second, row);
    keys_.push_back(key);
    Append(row);
  }

  void LookUpRows() {
    by_row_ = true;
    ranges_.clear();
    for (size_t i = 0; i < keys_.size(); ++i) places_.emplace(keys_[i], i);
  }

  void Append(table::ValueView rows) {
    for (size_t i = 0; i < rows.size(); ++i) sums_.push_back(rows[i]);
  }

  void AddTo(size_t place, table::ValueView rows) {
    float* const sum = sums_.data() + place * dim();
    for (size_t i = 0; i < rows.size(); ++i) sum[i] = sum[i] + rows[i];
  }

  std::shared_ptr<const TableInfo> table_;
  std::vector<uint64_t> keys_;  // in the order of their first occurrence
  std::vector<float> sums_;
  absl::btree_map<uint64_t, Range> ranges_;  // by their first keys; empty once by_row_
  bool by_row_ = false;
  absl::flat_hash_map<uint64_t, size_t> places_;  // into keys_; never iterated
};

}  // namespace

uint64_t Staging::BytesOf(const Update& update) {
  return kPartBytes + update.keys.size() + update.values.size();
}

uint64_t Staging::FoldedBytesOf(const Update& update, uint32_t dim) {
  return update.values.size() + update.values.size() / (sizeof(float) * dim) * kKeyBytes;
}

void Staging::Put(JobId job, const Update& update, std::shared_ptr<const TableInfo> table) {
  Staged& session = sessions_[update.session];
  session.job = job;
  Clocked& clocked = session.clocks[update.clock];
  clocked.last = update.number;
  if (update.count == 0) return;
  clocked.bytes += BytesOf(update);
  bytes_ += BytesOf(update);
  clocked.folded_bytes[table->id] += FoldedBytesOf(update, table->schema.dim);
  clocked.parts.push_back({.update = update, .table = std::move(table)});
}

void Staging::Tell(SessionId session, std::shared_ptr<AckSink> sink) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  auto& sinks = it->second.sinks;
  if (!sinks.empty() && sinks.back() == sink) return;
  std::erase(sinks, sink);
  if (sinks.size() == kSinksMax) sinks.erase(sinks.begin());
  sinks.push_back(std::move(sink));
}

PartNumber Staging::Last(SessionId session) const {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? 0 : it->second.clocks.rbegin()->second.last;
}

Clock Staging::LastClock(SessionId session) const {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? 0 : it->second.clocks.rbegin()->first;
}

std::optional<Clock> Staging::Oldest(JobId job) const {
  std::optional<Clock> oldest;
  for (const auto& [id, session] : sessions_) {
    if (session.job != job) continue;
    const Clock clock = session.clocks.begin()->first;
    oldest = std::min(oldest.value_or(clock), clock);
  }
  return oldest;
}

template <class Visit>
void Staging::ForEachOf(JobId job, Clock clock, const Visit& visit) const {
  for (const auto& [id, session] : sessions_) {
    if (session.job != job) continue;
    if (const auto it = session.clocks.find(clock); it != session.clocks.end()) visit(it->second);
  }
}

uint64_t Staging::bytes(JobId job, Clock clock) const {
  uint64_t sum = 0;
  ForEachOf(job, clock, [&sum](const Clocked& clocked) { sum += clocked.bytes; });
  return sum;
}

std::map<TableId, uint64_t> Staging::folded_bytes(JobId job, Clock clock) const {
  std::map<TableId, uint64_t> sums;
  ForEachOf(job, clock, [&sums](const Clocked& clocked) {
    for (const auto& [table, bytes] : clocked.folded_bytes) sums[table] += bytes;
  });
  return sums;
}

Staging::Complete Staging::Take(JobId job, Clock clock, const clock::JobClock& workers) {
  std::vector<std::pair<uint32_t, SessionId>> order;
  for (const auto& [id, session] : sessions_) {
    if (session.job != job || !session.clocks.contains(clock)) continue;
    const auto worker = workers.workers().find(id);
    const bool ranked = worker != workers.workers().end() && !Planted(Bug::kFoldBySession);
    order.emplace_back(ranked ? worker->second.rank : UINT32_MAX, id);
  }
  std::sort(order.begin(), order.end());
  Complete complete;
  complete.record.job = job;
  complete.record.clock = clock;
  std::map<TableId, Sums> sums;
  for (const auto& [rank, id] : order) {
    Staged& session = sessions_.at(id);
    const auto it = session.clocks.find(clock);
    for (const Part& part : it->second.parts) {
      sums.try_emplace(part.table->id, part.table).first->second.Add(part.update);
    }
    complete.record.numbers.emplace_back(id, it->second.last);
    complete.sinks.push_back(session.sinks);
    complete.bytes += it->second.bytes;
    session.clocks.erase(it);
    if (session.clocks.empty()) sessions_.erase(id);
  }
  const size_t members = Planted(Bug::kMeanOfPushers) ? order.size() : workers.Members(clock);
  for (auto& [table, sum] : sums) {
    complete.record.tables.push_back(std::move(sum).Finish(members));
  }
  bytes_ -= complete.bytes;
  return complete;
}

uint64_t Staging::Drop(SessionId session) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return 0;
  uint64_t dropped = 0;
  for (const auto& [clock, clocked] : it->second.clocks) dropped += clocked.bytes;
  sessions_.erase(it);
  bytes_ -= dropped;
  return dropped;
}

uint64_t Staging::Drop(TableId table) {
  const uint64_t before = bytes_;
  for (auto& [id, session] : sessions_) {
    for (auto& [clock, clocked] : session.clocks) {
      clocked.folded_bytes.erase(table);
      std::erase_if(clocked.parts, [&, &of_clock = clocked](const Part& part) {
        if (part.update.table != table) return false;
        of_clock.bytes -= BytesOf(part.update);
        bytes_ -= BytesOf(part.update);
        return true;
      });
    }
  }
  return before - bytes_;
}

uint64_t Staging::Clear() {
  sessions_.clear();
  return std::exchange(bytes_, 0);
}

}  // namespace paceline::log
