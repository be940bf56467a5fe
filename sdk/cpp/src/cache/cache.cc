#include "sdk/cpp/src/cache/cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "libs/base/little_endian.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/cache/piece_keys.h"
#include "sdk/cpp/src/pull/cord_reader.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// Rows whose memory is asked for before the first of them is looked at.
constexpr uint32_t kAtOnce = 16;
constexpr size_t kCacheLine = 64;

// A cached row that is not read would be of no use after `staleness` clocks, and not be fetched again.
uint32_t UnreadMax(const Promise& promise) {
  constexpr uint64_t kMost = 7;
  const uint64_t updates = promise.staleness.value_or(0) / std::max<uint32_t>(promise.told_every, 1);
  return static_cast<uint32_t>(std::clamp<uint64_t>(updates, 1, kMost));
}

// Asks which of the table's rows have changed.
bool Refreshes(const TableInfo& info) {
  return PromiseOf(info.consistency).refresh && info.schema.kind == table::Kind::kSparse &&
         !info.schema.aggregated;
}

bool AllFinite(const char* values, uint32_t dim) {
  for (uint32_t i = 0; i < dim; ++i) {
    if (!std::isfinite(LoadF32(values + i * sizeof(float)))) return false;
  }
  return true;
}

}  // namespace

RowCache::Rows::Rows(const TableInfo& info, uint64_t trial_rows, uint64_t bytes_max)
    : table(info.id),
      dim(info.schema.dim),
      aggregated(info.schema.aggregated),
      additive(table::IsAdditive(info.schema.rule)),
      told(PromiseOf(info.consistency).told_every > 0 && info.schema.kind == table::Kind::kSparse),
      unread_max(UnreadMax(PromiseOf(info.consistency))),
      kernel(info.schema.rule),
      // A sample would not show what is saved where shards tell of changes.
      trial(trial_rows, !told && !Refreshes(info),
            Refreshes(info) ? CacheTrial::Saves::kBytes : CacheTrial::Saves::kTime),
      sample(trial.one_in(), bytes_max / BytesOf(*this) / trial.one_in()) {}

RowCache::Rows* RowCache::Find(TableId table) const {
  const auto it = tables_.find(table);
  return it == tables_.end() ? nullptr : it->second.get();
}

RowCache::Rows& RowCache::Of(const TableInfo& table) {
  std::unique_ptr<Rows>& rows = tables_[table.id];
  if (rows == nullptr) rows = std::make_unique<Rows>(table, trial_rows_, bytes_max_);
  return *rows;
}

RowCache::Newest& RowCache::NewestOf(SegmentId segment) {
  if (segment.v >= newest_.size()) newest_.resize(segment.v + 1);
  return newest_[segment.v];
}

// -- reads --

bool RowCache::Has(const TableInfo& table) const {
  const Rows* rows = Find(table.id);
  return rows != nullptr && !rows->index.empty();
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
  Rows* rows = Find(table.id);
  if (rows == nullptr || rows->index.empty()) {
    for (uint32_t i = from; i < to; ++i) missing.push_back(place_at(i));
    return;
  }
  rows->bound = bound.min_clock;
  const size_t row_bytes = rows->dim * sizeof(float);
  // The hardware prefetches the rest of a large row, which is read in sequence.
  const size_t asked_for = std::min(sizeof(Row) + row_bytes, 8 * kCacheLine);
  Row* found[kAtOnce];
  uint32_t fit = 0;
  uint32_t unknown = 0;
  Clock hit_clock = 0;
  uint64_t hit_rows = 0;  // of that min clock, not counted yet
  const std::optional<absl::Time> began = Start(to - from);
  for (uint32_t i = from; i < std::min(to, from + kAtOnce); ++i) rows->index.prefetch(key_at(i));
  for (uint32_t begin = from; begin < to; begin += kAtOnce) {
    const uint32_t end = std::min(to, begin + kAtOnce);
    for (uint32_t i = begin; i < end; ++i) {
      const auto it = rows->index.find(key_at(i));
      found[i - begin] = it == rows->index.end() ? nullptr : it->second;
      const char* row = reinterpret_cast<const char*>(found[i - begin]);
      for (size_t at = 0; row != nullptr && at < asked_for; at += kCacheLine) __builtin_prefetch(row + at);
    }
    for (uint32_t i = end; i < std::min(to, end + kAtOnce); ++i) rows->index.prefetch(key_at(i));
    for (uint32_t i = begin; i < end; ++i) {
      Row* row = found[i - begin];
      if (row != nullptr) BringUp(*row);
      if (row == nullptr || !Fit(*row, bound)) {
        const bool wanted = row != nullptr && old != nullptr && WantsRefresh(*row, bound);
        (wanted ? *old : missing).push_back(place_at(i));
        if (row == nullptr) ++unknown;
        if (wanted) ++fit;  // hardly ever fetched
        continue;
      }
      ++fit;
      std::memcpy(out + size_t{place_at(i)} * rows->dim, row->values(), row_bytes);
      if (!row->used || row->unread > 0) {  // not to write where nothing changes
        row->used = true;
        row->unread = 0;
      }
      if (row->min_clock != hit_clock && hit_rows > 0) hits.Add(hit_clock, std::exchange(hit_rows, 0));
      hit_clock = row->min_clock;
      ++hit_rows;
      if (watcher_ == nullptr) continue;
      watcher_->Hit({.table = rows->table,
                     .key = row->key,
                     .segment = row->segment,
                     .epoch = row->epoch,
                     .version = row->version,
                     .min_clock = row->min_clock,
                     .own = row->own,
                     .pushed = row->pushed});
    }
  }
  if (hit_rows > 0) hits.Add(hit_clock, hit_rows);
  Stop(began, to - from, rows->trial.costs.look);
  const uint32_t looked = to - from;
  // While there is room, a row that is not cached was never read.
  const uint32_t firsts = Full(*rows) ? 0 : unknown;
  if (rows->trial.Looked(looked, fit, looked - fit - firsts, firsts)) OnVerdict(*rows);
}

bool RowCache::Fit(const Row& row, const CacheBound& bound) const {
  const bool in_bound = bound.exact ? row.min_clock == bound.min_clock : row.min_clock >= bound.min_clock;
  return in_bound && row.has_values && (row.has_own || !bound.own_writes) &&
         Valid(row.segment, row.epoch, row.version);
}

bool RowCache::Valid(SegmentId segment, Epoch epoch, Lsn version) const {
  const Newest& newest = newest_[segment.v];
  if (epoch == newest.epoch || Planted(Bug::kVoidVersionHandedOut)) return true;
  return epoch.v + 1 == newest.epoch.v && newest.began_known && version <= newest.began;
}

bool RowCache::TooOld(const Row& row) const {
  const bool old = row.min_clock < row.rows->bound && !InChain(row) && !IsTold(row);
  return !row.has_values || old || !Valid(row.segment, row.epoch, row.version);
}

// -- what the client does --

void RowCache::OnPullBegun(const TableInfo& table) {
  if (enabled()) ++Of(table).pulls;
}

void RowCache::OnPullEnded(const TableInfo& table, const Fetched& fetched) {
  if (!enabled()) return;
  Rows& rows = Of(table);
  --rows.pulls;
  rows.trial.Pulled(fetched.took / static_cast<int64_t>(fetched.pulls), fetched.rows);
}

void RowCache::OnPush(const TableInfo& table, const Batch& batch, const Batch::Piece& piece,
                      PartNumber number) {
  if (table.schema.aggregated || Planted(Bug::kOwnWriteMissingFromCache)) return;
  Rows* rows = Find(table.id);
  if (rows == nullptr || rows->pushed_late) return;
  rows->trial.Pushed(piece.rows);
  if (!rows->trial.whole()) return PassOver(*rows, batch, piece, number);
  bool absent = false;
  const std::optional<absl::Time> began = Start(piece.rows);
  const std::vector<Touched> touched = Touch(*rows, batch, piece, &absent);
  Apply(*rows, touched, batch.Values(piece).data(), number);
  Stop(began, piece.rows, rows->trial.costs.push);
  if (absent && rows->pulls > 0) Remember(*rows, batch, piece, number);
}

void RowCache::OnLatePush(const TableInfo& table) {
  if (!enabled() || table.schema.aggregated || Planted(Bug::kOwnWriteMissingFromCache)) return;
  Rows& rows = Of(table);
  if (!std::exchange(rows.pushed_late, true)) Clear(rows);
}

std::vector<RowCache::Touched> RowCache::Touch(const Rows& rows, const Batch& batch,
                                               const Batch::Piece& piece, bool* absent) const {
  std::vector<Touched> touched;
  if (rows.index.empty()) {
    *absent = true;
    return touched;
  }
  if (!batch.ranges) return TouchKeys(rows, batch, piece, absent);
  if (piece.rows <= rows.index.size()) {
    ForEachKey(batch, piece, [&](uint64_t key, uint32_t at) {
      const auto it = rows.index.find(key);
      if (it != rows.index.end()) touched.push_back({.row = it->second, .at = at});
    });
    *absent = touched.size() < piece.rows;
    return touched;
  }
  // Ranges of more rows than there are here at all.
  *absent = true;
  uint32_t at = 0;
  for (uint32_t entry = piece.first_entry; entry < piece.first_entry + piece.entries; ++entry) {
    const uint64_t first = KeyAt(batch, entry);
    const uint64_t count = RowsAt(batch, entry);
    for (const auto& [key, row] : rows.index) {
      if (key - first < count) touched.push_back({.row = row, .at = at + static_cast<uint32_t>(key - first)});
    }
    at += static_cast<uint32_t>(count);
  }
  return touched;
}

std::vector<RowCache::Touched> RowCache::TouchKeys(const Rows& rows, const Batch& batch,
                                                   const Batch::Piece& piece, bool* absent) {
  std::vector<Touched> touched;
  touched.reserve(piece.rows);
  const auto key_at = [&](uint32_t at) { return KeyAt(batch, piece.first_entry + at); };
  for (uint32_t i = 0; i < std::min(piece.rows, kAtOnce); ++i) rows.index.prefetch(key_at(i));
  for (uint32_t begin = 0; begin < piece.rows; begin += kAtOnce) {
    const uint32_t end = std::min(piece.rows, begin + kAtOnce);
    for (uint32_t i = begin; i < end; ++i) {
      const auto it = rows.index.find(key_at(i));
      if (it == rows.index.end()) continue;
      const char* row = reinterpret_cast<const char*>(it->second);
      __builtin_prefetch(row);
      __builtin_prefetch(row + kCacheLine);
      touched.push_back({.row = it->second, .at = i});
    }
    for (uint32_t i = end; i < std::min(piece.rows, end + kAtOnce); ++i) rows.index.prefetch(key_at(i));
  }
  *absent = touched.size() < piece.rows;
  return touched;
}

// As the shard does: each row once, with the sum of its gradients in their order.
void RowCache::Apply(Rows& rows, const std::vector<Touched>& touched, const char* gradients,
                     PartNumber number) {
  const size_t row_bytes = rows.dim * sizeof(float);
  absl::flat_hash_map<Row*, std::vector<float>> sums;  // of those that come more than once; empty: not yet
  for (const Touched& t : touched) {
    if (t.row->pushed == number) sums.try_emplace(t.row);
    t.row->pushed = number;
  }
  for (const Touched& t : touched) {
    const char* gradient = gradients + t.at * row_bytes;
    const auto repeated = sums.empty() ? sums.end() : sums.find(t.row);
    if (repeated == sums.end()) {
      ApplyOne(rows, *t.row, gradient, number);
      continue;
    }
    std::vector<float>& sum = repeated->second;
    const bool first = sum.empty();
    sum.resize(rows.dim);
    for (uint32_t i = 0; i < rows.dim; ++i) {
      const float g = LoadF32(gradient + i * sizeof(float));
      sum[i] = first ? g : sum[i] + g;
    }
  }
  for (auto& [row, sum] : sums) {
    ApplyOne(rows, *row, reinterpret_cast<const char*>(sum.data()), number);
  }
}

void RowCache::ApplyOne(Rows& rows, Row& row, const char* gradient, PartNumber number) {
  if (row.own >= number) return;  // a fast answer holds it already
  // Values that are not finite are most likely refused.
  const bool can = rows.additive && row.has_values && row.has_own && AllFinite(gradient, rows.dim);
  if (can) rows.kernel.Apply(row.values(), rows.dim, gradient, rows.dim);
  row.has_own = can;
  if (can && rows.told) KeepOwn(rows, row, gradient, number);
}

// Answers to pulls that are under way may lack this push.
void RowCache::Remember(Rows& rows, const Batch& batch, const Batch::Piece& piece, PartNumber number) {
  if (batch.ranges) return Forget(piece.segment, number);
  ForEachKey(batch, piece, [&](uint64_t key, uint32_t) {
    if (rows.index.contains(key)) return;
    Row* row = Add(rows, key, piece.segment);
    if (row == nullptr) {
      Forget(piece.segment, number);
    } else {
      row->pushed = number;
    }
  });
}

void RowCache::OnDropped(const TableInfo& table, const Batch& batch, const Batch::Piece& piece,
                         PartNumber number) {
  Rows* rows = Find(table.id);
  if (rows == nullptr || !rows->additive || rows->aggregated) return;
  bool absent = false;
  for (const Touched& t : Touch(*rows, batch, piece, &absent)) {
    if (t.row->own < number) t.row->has_values = t.row->has_own = false;
  }
}

void RowCache::OnRates(const TableInfo& table, const std::optional<table::Rule>& rule) {
  if (!enabled()) return;
  Rows& rows = Of(table);
  const bool was = std::exchange(rows.additive, rule.has_value() && table::IsAdditive(*rule));
  if (rule.has_value()) rows.kernel = table::RuleKernel(*rule);
  if (!was || rows.aggregated || Planted(Bug::kOldRatesInCache)) return;
  for (const auto& [key, row] : rows.index) {
    BringUp(*row);
    if (row->own < row->pushed) row->has_values = row->has_own = false;
  }
}

// -- answers and maps --

void RowCache::Learn(const wire::Certificate& certificate) {
  if (!enabled()) return;
  Newest& newest = NewestOf(certificate.segment);
  if (certificate.epoch < newest.epoch) return;
  newest.epoch = certificate.epoch;
  newest.began_known = true;
  newest.began = certificate.began;
}

void RowCache::Learn(const ring::SegmentMap& map) {
  if (!enabled()) return;
  for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
    Newest& newest = NewestOf(SegmentId(s));
    if (map.EpochOf(SegmentId(s)) <= newest.epoch) continue;
    newest.epoch = map.EpochOf(SegmentId(s));
    newest.began_known = false;
  }
}

void RowCache::OnServed(const TableInfo& table, const Batch& batch, const Batch::Piece& piece,
                        const wire::Certificate& certificate, const absl::Cord& values) {
  if (!enabled() || !Valid(certificate.segment, certificate.epoch, certificate.version)) return;
  Rows& rows = Of(table);
  if (rows.pushed_late) return;
  if (rows.trial.sampling()) NoteServed(rows, batch, piece, certificate.min_clock);
  if (!rows.trial.whole()) return;
  const std::optional<absl::Time> began = Start(piece.rows);
  const Served served = ServedOf(rows, certificate);
  CordReader reader(values);
  if (batch.ranges) {
    ForEachKey(batch, piece, [&](uint64_t key, uint32_t) { Put(rows, key, served, reader); });
  } else {
    PutKeys(rows, batch, piece, served, reader);
  }
  Stop(began, piece.rows, rows.trial.costs.keep);
}

void RowCache::PutKeys(Rows& rows, const Batch& batch, const Batch::Piece& piece, const Served& served,
                       CordReader& values) {
  const auto key_at = [&](uint32_t at) { return KeyAt(batch, piece.first_entry + at); };
  for (uint32_t begin = 0; begin < piece.rows; begin += kAtOnce) {
    const uint32_t end = std::min(piece.rows, begin + kAtOnce);
    for (uint32_t i = begin; i < end; ++i) rows.index.prefetch(key_at(i));
    for (uint32_t i = begin; i < end; ++i) {  // only a hint: to put a row may evict another
      const auto it = rows.index.find(key_at(i));
      if (it != rows.index.end()) __builtin_prefetch(it->second, 1);
    }
    for (uint32_t i = begin; i < end; ++i) Put(rows, key_at(i), served, values);
  }
}

RowCache::Served RowCache::ServedOf(Rows& rows, const wire::Certificate& certificate) {
  const uint32_t segment = certificate.segment.v;
  Served served{.certificate = certificate};
  if (!rows.aggregated) {
    const PartNumber passed = segment < rows.passed.size() ? rows.passed[segment] : 0;
    served.pushed = std::max(NewestOf(certificate.segment).forgotten, passed);
  }
  if (segment >= rows.chains.size()) return served;
  const Chain& chain = rows.chains[segment];
  served.overtaken = chain.there && certificate.epoch == chain.epoch && certificate.version >= chain.begin &&
                     certificate.version < chain.end;
  return served;
}

void RowCache::Put(Rows& rows, uint64_t key, const Served& served, CordReader& values) {
  const wire::Certificate& certificate = served.certificate;
  const size_t row_bytes = rows.dim * sizeof(float);
  const auto it = rows.index.find(key);
  Row* row = it == rows.index.end() ? nullptr : it->second;
  if (row != nullptr) BringUp(*row);
  // To put a row may have evicted others: what was pushed to those is forgotten since the part began.
  const PartNumber pushed = rows.aggregated ? 0
                            : row != nullptr
                                ? row->pushed
                                : std::max(served.pushed, NewestOf(certificate.segment).forgotten);
  if (certificate.own < pushed) return values.Skip(row_bytes);
  // If the row has changed since, the refresh that has overtaken this answer said so while there was nothing
  // here to change.
  if (served.overtaken && (row == nullptr || !row->has_values)) return values.Skip(row_bytes);
  if (row == nullptr) {
    row = Add(rows, key, certificate.segment);
    if (row == nullptr) return values.Skip(row_bytes);
    row->pushed = pushed;  // an answer of a later epoch may still lack it
  }
  const bool newer = std::pair(certificate.epoch, certificate.version) > std::pair(row->epoch, row->version);
  const bool worse = row->has_values && !newer && Valid(row->segment, row->epoch, row->version);
  if (worse) return values.Skip(row_bytes);
  values.Read(reinterpret_cast<char*>(row->values()), row_bytes);
  row->epoch = certificate.epoch;
  row->version = certificate.version;
  row->min_clock = certificate.min_clock;
  row->own = certificate.own;
  row->has_values = row->has_own = true;
  if (!rows.told) return;
  ForgetOwn(rows, *row, row->own);
  row->keeps_own = true;
  Join(rows, *row);
}

}  // namespace paceline::sdk
