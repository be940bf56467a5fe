// The memory of rows: who gets some, and who has to go.
#include <algorithm>
#include <utility>

#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// A row's place in the ring, on average.
constexpr uint64_t kHeldBytes = 22;

// So many rows ahead of the hand are asked for.
constexpr size_t kAhead = 8;

}  // namespace

uint64_t RowCache::BytesOf(const Rows& rows) {
  return RowTable::RowBytes(rows.dim) + kHeldBytes;
}

RowCache::Row RowCache::Add(Rows& rows, uint64_t key, SegmentId segment) {
  if (BytesOf(rows) > bytes_max_) return {};
  bool evicted = false;
  for (; Full(rows); evicted = true) {
    if (!EvictOne()) return {};
  }
  row_bytes_ += BytesOf(rows);
  ring_.push_back({.rows = &rows, .key = key});
  // In the evicted row's place, behind the hand, which comes to it last.
  if (evicted && hand_ < ring_.size()) std::swap(ring_[hand_++], ring_.back());
  return rows.held.Add(key, segment);
}

bool RowCache::EvictOne() {
  // Once around takes every second chance, so the second time finds one.
  for (size_t looked = 0; looked <= ring_.size() && !ring_.empty(); ++looked) {
    if (hand_ >= ring_.size()) hand_ = 0;
    if (const size_t ahead = hand_ + kAhead; ahead < ring_.size()) {
      ring_[ahead].rows->held.PrefetchEntry(ring_[ahead].key);
    }
    Rows& rows = *ring_[hand_].rows;
    const Row row = rows.held.Find(ring_[hand_].key);
    if (!row.entry->used || TooOld(rows, *row.entry)) {
      Remove(rows, row);
      return true;
    }
    row.entry->used = false;
    ++hand_;
  }
  return false;
}

void RowCache::Trim() {
  while (bytes() > bytes_max_ && EvictOne()) ++hand_;  // beyond the newest row, which took the place
}

void RowCache::Forget(SegmentId segment, PartNumber number) {
  PartNumber& forgotten = NewestOf(segment).forgotten;
  forgotten = std::max(forgotten, number);
}

void RowCache::Clear(Rows& rows) {
  for (uint32_t s = 0; s < rows.sets.size(); ++s) {
    Set& set = rows.sets[s];
    set.leaves = set.leaves || set.there || !set.asked.empty();  // it may not have been said yet
    if (set.leaves) sets_changed_.push_back(SegmentId(s));
    EndSet(set);
    set.joining.clear();
  }
  rows.held.ForEach([&](const Row& row) {
    Forget(row.rest->segment, row.rest->pushed);
    Leave(rows, row);
    ForgetOwn(rows, row.entry->key, UINT64_MAX);
    SetStamp(*row.entry, Stamps::kNone);
  });
  row_bytes_ -= rows.held.size() * BytesOf(rows);
  rows.held.Clear();
  std::erase_if(ring_, [&](const Held& held) { return held.rows == &rows; });
  rows.sample.Clear();
  ++changes_;
}

void RowCache::ForgetRows(const TableInfo& table) {
  if (Rows* rows = Find(table.id)) Clear(*rows);
}

void RowCache::Remove(Rows& rows, const Row& row) {
  Forget(row.rest->segment, row.rest->pushed);
  Leave(rows, row);
  ForgetOwn(rows, row.entry->key, UINT64_MAX);
  SetStamp(*row.entry, Stamps::kNone);
  rows.held.Remove(*row.entry);
  row_bytes_ -= BytesOf(rows);
  ring_[hand_] = ring_.back();
  ring_.pop_back();
}

}  // namespace paceline::sdk
