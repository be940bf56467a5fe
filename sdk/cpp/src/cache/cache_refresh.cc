// Rows that have not changed stay fit: chains of answers to "what has changed since?".
#include <algorithm>
#include <utility>

#include "libs/base/little_endian.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/pull/cord_reader.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// So many rows cost next to nothing.
constexpr uint32_t kRowsMin = 16;
constexpr uint32_t kPauseMax = 64;  // clocks

}  // namespace

RowCache::Chain& RowCache::ChainOf(Rows& rows, SegmentId segment) {
  if (segment.v >= rows.chains.size()) rows.chains.resize(segment.v + 1);
  return rows.chains[segment.v];
}

bool RowCache::InChain(const Rows& rows, const Stamp& stamp) {
  if (stamp.segment.v >= rows.chains.size()) return false;
  const Chain& chain = rows.chains[stamp.segment.v];
  return chain.there && stamp.epoch == chain.epoch && stamp.version >= chain.begin;
}

// The client's own pushes that the end of the chain covers have not changed the row either: otherwise it
// would have been among the changes. So the values stay, including pushes applied here.
void RowCache::BringUp(Rows& rows, Entry& entry) {
  if (rows.told) return BringUpTold(rows, entry);
  const Stamp& stamp = StampOf(entry);
  if (!entry.has_values() || !InChain(rows, stamp)) return;
  Chain& chain = rows.chains[stamp.segment.v];
  if (stamp.version >= chain.end) return;
  if (stamp.min_clock < rows.bound && chain.min_clock >= rows.bound) ++chain.saved;
  BringTo(rows, entry, chain.stamp);
}

void RowCache::BringTo(Rows& rows, Entry& entry, uint32_t stamp) {
  SetStamp(entry, stamp);
  entry.has_own = entry.has_own || stamps_[stamp].own >= rows.held.RestOf(entry).pushed;
}

bool RowCache::WantsRefresh(Rows& rows, const Entry& entry, const CacheBound& bound) {
  const Stamp& stamp = StampOf(entry);
  if (bound.exact || rows.aggregated || !entry.has_values() || stamp.min_clock >= bound.min_clock)
    return false;
  Chain& chain = ChainOf(rows, stamp.segment);
  if (chain.asked || bound.min_clock < chain.resume_at) return false;
  const bool goes_on = chain.there && chain.epoch == newest_[stamp.segment.v].epoch;
  if (goes_on && !InChain(rows, stamp)) return false;
  ++chain.wanted;
  return goes_on;
}

std::vector<Refresh> RowCache::TakeRefreshes(const TableInfo& table, uint32_t worth) {
  std::vector<Refresh> refreshes;
  Rows* rows = Find(table.id);
  if (rows == nullptr) return refreshes;
  const bool wanted = std::any_of(rows->chains.begin(), rows->chains.end(),
                                  [](const Chain& chain) { return chain.wanted > 0; });
  if (!wanted) return refreshes;
  const auto most = static_cast<uint32_t>(kPieceBytes / (sizeof(uint64_t) + rows->dim * sizeof(float)));
  for (uint32_t s = 0; s < rows->chains.size(); ++s) {
    Chain& chain = rows->chains[s];
    const bool goes_on = chain.there && chain.epoch == newest_[s].epoch;
    // Segments that would be asked about at one of the next clocks are asked about now: one frame to each
    // shard instead of several.
    const bool soon = goes_on && rows->bound >= chain.resume_at && chain.min_clock < rows->bound + worth / 2;
    if (chain.asked || (chain.wanted == 0 && !soon)) continue;
    const uint64_t rows_max = std::clamp<uint64_t>(
        std::max<uint64_t>(uint64_t{chain.wanted} * worth, 2 * chain.cost), kRowsMin, most);
    refreshes.push_back({.segment = SegmentId(s),
                         .since = goes_on ? chain.end : Lsn(0),
                         .rows_max = goes_on ? static_cast<uint32_t>(rows_max) : 0});
    chain.asked = true;
    chain.wanted = 0;
  }
  return refreshes;
}

void RowCache::Pause(Chain& chain, Clock bound) {
  chain.pause = std::clamp<uint32_t>(2 * chain.pause, 1, kPauseMax);
  chain.resume_at = bound + chain.pause + 1;
}

void RowCache::OnChanges(const TableInfo& table, const wire::Certificate& certificate, Lsn since,
                         std::optional<uint32_t> count, absl::string_view keys, const absl::Cord& values) {
  Rows* rows = Find(table.id);
  if (rows == nullptr || !Valid(certificate.segment, certificate.epoch, certificate.version)) return;
  Chain& chain = ChainOf(*rows, certificate.segment);
  const bool same = chain.there && chain.epoch == certificate.epoch;
  if (chain.there && certificate.epoch < chain.epoch) return;
  if (same && certificate.version < chain.end) return;
  uint32_t stamp = Stamps::kNone;
  if (same && count.has_value()) {
    if (since < chain.begin || since > chain.end) return;  // what came between is not known
    stamp = stamps_.Make(certificate);
    CordReader reader(values);
    for (uint32_t i = 0; i < *count; ++i) {
      PutChanged(*rows, LoadU64(keys.data() + i * sizeof(uint64_t)), certificate, stamp, reader);
    }
    if (chain.cost > chain.saved + kRowsMin) {
      Pause(chain, rows->bound);
    } else {
      chain.pause /= 2;
    }
    chain.cost = *count;
  } else {
    if (same) Pause(chain, rows->bound);
    stamp = stamps_.Make(certificate);
    chain.there = true;
    chain.epoch = certificate.epoch;
    chain.begin = certificate.version;
    chain.cost = 0;
  }
  chain.saved = 0;
  chain.end = certificate.version;
  chain.min_clock = certificate.min_clock;
  stamps_.Release(std::exchange(chain.stamp, stamp));
  ++changes_;
  Trim();
}

// Of the rows that have changed, the cache keeps only those that were read before.
void RowCache::PutChanged(Rows& rows, uint64_t key, const wire::Certificate& certificate, uint32_t stamp,
                          CordReader& values) {
  const size_t row_bytes = rows.dim * sizeof(float);
  const Row row = rows.held.Find(key);
  if (!row) return values.Skip(row_bytes);
  BringUp(rows, *row.entry);  // as of the chain's end before this answer
  const Stamp& before = StampOf(*row.entry);
  const bool newer = before.epoch == certificate.epoch && before.version >= certificate.version;
  if (row.entry->has_values() && newer) return values.Skip(row_bytes);
  if (certificate.own < row.rest->pushed && !rows.aggregated) {
    // The answer lacks a push, the row lacks the change.
    VoidValues(*row.entry);
    return values.Skip(row_bytes);
  }
  values.Read(reinterpret_cast<char*>(row.values), row_bytes);
  SetStamp(*row.entry, stamp);
  row.entry->has_own = true;
}

void RowCache::OnRefreshEnded(const TableInfo& table, const Batch& batch) {
  Rows* rows = Find(table.id);
  if (rows == nullptr) return;
  for (const Batch::Piece& piece : batch.pieces) ChainOf(*rows, piece.segment).asked = false;
}

}  // namespace paceline::sdk
