// Reads: which rows are fit, and their copies.
#include <algorithm>
#include <cstring>
#include <utility>

#include "libs/base/cache_line.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// Most rows are short, so that a call would cost as much as the copy.
void CopyRow(const float* values, uint32_t dim, float* out) {
  constexpr uint32_t kLine = kCacheLineBytes / sizeof(float);
  if (dim % kLine != 0) {
    std::memcpy(out, values, dim * sizeof(float));
    return;
  }
  for (uint32_t i = 0; i < dim; i += kLine) std::memcpy(out + i, values + i, kLine * sizeof(float));
}

}  // namespace

bool RowCache::Has(const TableInfo& table) const {
  const Rows* rows = Find(table.id);
  return rows != nullptr && !rows->held.empty();
}

void RowCache::Read(const TableInfo& table, const CacheBound& bound, absl::Span<const uint64_t> keys,
                    uint32_t from, uint32_t to, float* out, std::vector<uint32_t>& missing, ClockCounts& hits,
                    std::vector<uint32_t>* old) {
  ReadRows(
      table, bound, [keys](uint32_t i) { return keys[i]; }, [](uint32_t i) { return i; }, from, to, out,
      missing, hits, old);
}

void RowCache::ReadPlaces(const TableInfo& table, const CacheBound& bound, absl::Span<const uint64_t> keys,
                          absl::Span<const uint32_t> places, float* out, std::vector<uint32_t>& missing,
                          ClockCounts& hits) {
  ReadRows(
      table, bound, [keys](uint32_t i) { return keys[i]; }, [places](uint32_t i) { return places[i]; }, 0,
      static_cast<uint32_t>(keys.size()), out, missing, hits, nullptr);
}

void RowCache::ReadRange(const TableInfo& table, const CacheBound& bound, uint64_t first, uint32_t from,
                         uint32_t to, float* out, std::vector<uint32_t>& missing, ClockCounts& hits) {
  ReadRows(
      table, bound, [first](uint32_t i) { return first + i; }, [](uint32_t i) { return i; }, from, to, out,
      missing, hits, nullptr);
}

template <class KeyAt, class PlaceAt>
void RowCache::ReadRows(const TableInfo& table, const CacheBound& bound, KeyAt key_at, PlaceAt place_at,
                        uint32_t from, uint32_t to, float* out, std::vector<uint32_t>& missing,
                        ClockCounts& hits, std::vector<uint32_t>* old) {
  Rows* const rows = Find(table.id);
  if (rows == nullptr || rows->held.empty()) {
    for (uint32_t i = from; i < to; ++i) missing.push_back(place_at(i));
    return;
  }
  rows->bound = bound.min_clock;
  JudgeFor(*rows, bound);
  const std::optional<absl::Time> began = Start(to - from);
  const uint32_t dim = rows->dim;
  uint32_t fit = 0;
  uint32_t unknown = 0;
  Clock hit_clock = 0;
  uint64_t hit_rows = 0;  // of that min clock, not counted yet
  const auto visit = [&](uint32_t i, Entry* entry, const float* values) {
    const bool good = entry != nullptr && IsGood(*rows, *entry) && (entry->has_own || !bound.own_writes);
    if (!good && (entry == nullptr || !FitNow(*rows, *entry, bound))) {
      const bool wanted = entry != nullptr && old != nullptr && WantsRefresh(*rows, *entry, bound);
      (wanted ? *old : missing).push_back(place_at(i));
      if (entry == nullptr) ++unknown;
      if (wanted) ++fit;  // hardly ever fetched
      return;
    }
    ++fit;
    CopyRow(values, dim, out + size_t{place_at(i)} * dim);
    if (!entry->used || entry->unread > 0) {  // not to write where nothing changes
      entry->used = true;
      entry->unread = 0;
    }
    const Clock min_clock = stamps_.judged(static_cast<uint32_t>(entry->stamp)).min_clock;
    if (min_clock != hit_clock && hit_rows > 0) hits.Add(hit_clock, std::exchange(hit_rows, 0));
    hit_clock = min_clock;
    ++hit_rows;
    if (watcher_ != nullptr) Report(*rows, rows->held.RowOf(*entry));
  };
  // A row that shards tell of is brought up by its first read after an update, which needs the rest of it.
  if (rows->told) {
    rows->held.FindEach<RowTable::Ahead::kValuesAndRest>(from, to, key_at, visit);
  } else {
    rows->held.FindEach<RowTable::Ahead::kValues>(from, to, key_at, visit);
  }
  if (hit_rows > 0) hits.Add(hit_clock, hit_rows);
  Stop(began, to - from, rows->trial.costs.look);
  const uint32_t looked = to - from;
  // While there is room, hardly a row that is not cached was ever read.
  const uint32_t firsts = Full(*rows) ? 0 : unknown;
  if (rows->trial.Looked(looked, fit, looked - fit - firsts, firsts)) OnVerdict(*rows);
}

void RowCache::Report(const Rows& rows, const Row& row) {
  const Stamp& stamp = StampOf(*row.entry);
  watcher_->Hit({.table = rows.table,
                 .key = row.entry->key,
                 .segment = stamp.segment,
                 .epoch = stamp.epoch,
                 .version = stamp.version,
                 .min_clock = stamp.min_clock,
                 .own = stamp.own,
                 .pushed = row.rest->pushed});
}

void RowCache::JudgeFor(Rows& rows, const CacheBound& bound) {
  const bool same = rows.judged_bound.min_clock == bound.min_clock && rows.judged_bound.exact == bound.exact;
  if (same && rows.judged_after == changes_) return;
  rows.judged_bound = bound;
  rows.judged_after = changes_;
  rows.judging = stamps_.NewJudging();
}

bool RowCache::FitNow(Rows& rows, Entry& entry, const CacheBound& bound) {
  if (entry.has_values()) Judge(rows, entry, bound);
  BringUp(rows, entry);
  return Fit(entry, bound);
}

void RowCache::Judge(const Rows& rows, const Entry& entry, const CacheBound& bound) {
  const Stamp& stamp = StampOf(entry);
  bool good = Valid(stamp) && InBound(stamp, bound);
  if (rows.told) {
    good = good && (!InUpdates(rows, stamp) || stamp.version >= rows.sets[stamp.segment.v].end);
  } else {
    good = good && (!InChain(rows, stamp) || stamp.version >= rows.chains[stamp.segment.v].end);
  }
  if (good) stamps_.NoteGood(static_cast<uint32_t>(entry.stamp), rows.judging);
}

bool RowCache::InBound(const Stamp& stamp, const CacheBound& bound) {
  return bound.exact ? stamp.min_clock == bound.min_clock : stamp.min_clock >= bound.min_clock;
}

bool RowCache::Fit(const Entry& entry, const CacheBound& bound) const {
  return entry.has_values() && (entry.has_own || !bound.own_writes) && InBound(StampOf(entry), bound) &&
         Valid(StampOf(entry));
}

bool RowCache::Valid(SegmentId segment, Epoch epoch, Lsn version) const {
  const Newest& newest = newest_[segment.v];
  if (epoch == newest.epoch || Planted(Bug::kVoidVersionHandedOut)) return true;
  return epoch.v + 1 == newest.epoch.v && newest.began_known && version <= newest.began;
}

bool RowCache::TooOld(Rows& rows, const Entry& entry) const {
  if (!entry.has_values()) return true;
  const Stamp& stamp = StampOf(entry);
  const bool old = stamp.min_clock < rows.bound && !InChain(rows, stamp) && !IsTold(rows, entry);
  return old || !Valid(stamp);
}

}  // namespace paceline::sdk
