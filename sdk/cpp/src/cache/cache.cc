#include "sdk/cpp/src/cache/cache.h"

#include <algorithm>
#include <utility>

#include "sdk/cpp/src/cache/piece_keys.h"
#include "sdk/cpp/src/pull/cord_reader.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// Rows whose memory is asked for before the first of them is put.
constexpr uint32_t kAtOnce = 16;

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

}  // namespace

RowCache::Rows::Rows(const TableInfo& info, uint64_t trial_rows, uint64_t bytes_max)
    : table(info.id),
      dim(info.schema.dim),
      aggregated(info.schema.aggregated),
      additive(table::IsAdditive(info.schema.rule)),
      told(PromiseOf(info.consistency).told_every > 0 && info.schema.kind == table::Kind::kSparse),
      unread_max(UnreadMax(PromiseOf(info.consistency))),
      kernel(info.schema.rule),
      held(info.schema.dim),
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

// -- answers and maps --

void RowCache::Learn(const wire::Certificate& certificate) {
  if (!enabled()) return;
  Newest& newest = NewestOf(certificate.segment);
  if (certificate.epoch < newest.epoch) return;
  const bool known =
      newest.epoch == certificate.epoch && newest.began_known && newest.began == certificate.began;
  if (known) return;
  newest.epoch = certificate.epoch;
  newest.began_known = true;
  newest.began = certificate.began;
  ++changes_;
}

void RowCache::Learn(const ring::SegmentMap& map) {
  if (!enabled()) return;
  for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
    Newest& newest = NewestOf(SegmentId(s));
    if (map.EpochOf(SegmentId(s)) <= newest.epoch) continue;
    newest.epoch = map.EpochOf(SegmentId(s));
    newest.began_known = false;
    ++changes_;
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
  stamps_.Release(served.stamp);
  Trim();
  Stop(began, piece.rows, rows.trial.costs.keep);
}

void RowCache::PutKeys(Rows& rows, const Batch& batch, const Batch::Piece& piece, const Served& served,
                       CordReader& values) {
  const auto key_at = [&](uint32_t at) { return KeyAt(batch, piece.first_entry + at); };
  for (uint32_t begin = 0; begin < piece.rows; begin += kAtOnce) {
    const uint32_t end = std::min(piece.rows, begin + kAtOnce);
    // Only hints: to put a row may evict another.
    for (uint32_t i = begin; i < end; ++i) rows.held.PrefetchEntry(key_at(i));
    for (uint32_t i = begin; i < end; ++i) {
      const Entry* const entry = rows.held.FindEntry(key_at(i));
      if (entry == nullptr) continue;
      rows.held.PrefetchValues(*entry);
      rows.held.PrefetchRest(*entry);
    }
    for (uint32_t i = begin; i < end; ++i) Put(rows, key_at(i), served, values);
  }
}

RowCache::Served RowCache::ServedOf(Rows& rows, const wire::Certificate& certificate) {
  const uint32_t segment = certificate.segment.v;
  Served served{.certificate = certificate, .stamp = stamps_.Make(certificate)};
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
  Row row = rows.held.Find(key);
  if (row) BringUp(rows, *row.entry);
  // To put a row may have evicted others: what was pushed to those is forgotten since the part began.
  const PartNumber pushed = rows.aggregated ? 0
                            : row           ? row.rest->pushed
                                  : std::max(served.pushed, NewestOf(certificate.segment).forgotten);
  if (certificate.own < pushed) return values.Skip(row_bytes);
  // If the row has changed since, the refresh that has overtaken this answer said so while there was nothing
  // here to change.
  if (served.overtaken && (!row || !row.entry->has_values())) return values.Skip(row_bytes);
  if (!row) {
    row = Add(rows, key, certificate.segment);
    if (!row) return values.Skip(row_bytes);
    row.rest->pushed = pushed;  // an answer of a later epoch may still lack it
  }
  const Stamp& before = StampOf(*row.entry);
  const bool newer =
      std::pair(certificate.epoch, certificate.version) > std::pair(before.epoch, before.version);
  const bool worse = row.entry->has_values() && !newer && Valid(before);
  if (worse) return values.Skip(row_bytes);
  values.Read(reinterpret_cast<char*>(row.values), row_bytes);
  SetStamp(*row.entry, served.stamp);
  row.entry->has_own = true;
  if (!rows.told) return;
  ForgetOwn(rows, key, certificate.own);
  row.entry->keeps_own = true;
  Join(rows, row);
}

}  // namespace paceline::sdk
