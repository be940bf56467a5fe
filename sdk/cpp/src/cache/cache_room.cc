// The memory of rows: who gets some, and who has to go.
#include <algorithm>
#include <new>

#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// The cost of a row besides its values: the allocator's overhead, its place in the index (at the table's
// average load) and in the ring.
constexpr size_t kBytesAround = 56;

}  // namespace

RowCache::~RowCache() {
  for (Row* row : ring_) ::operator delete(row);
}

uint64_t RowCache::BytesOf(const Rows& rows) {
  return sizeof(Row) + rows.dim * sizeof(float) + kBytesAround;
}

RowCache::Row* RowCache::Add(Rows& rows, uint64_t key, SegmentId segment) {
  if (BytesOf(rows) > bytes_max_) return nullptr;
  bool evicted = false;
  for (; Full(rows); evicted = true) {
    if (!EvictOne()) return nullptr;
  }
  bytes_ += BytesOf(rows);
  Row* row = new (::operator new(sizeof(Row) + rows.dim * sizeof(float))) Row{};
  row->key = key;
  row->rows = &rows;
  row->segment = segment;
  row->place = static_cast<uint32_t>(ring_.size());
  ring_.push_back(row);
  // In the evicted row's place, behind the hand, which comes to it last.
  if (evicted && hand_ < ring_.size()) {
    std::swap(ring_[hand_], ring_.back());
    std::swap(ring_[hand_]->place, ring_.back()->place);
    ++hand_;
  }
  rows.index.emplace(key, row);
  return row;
}

bool RowCache::EvictOne() {
  // Once around takes every second chance, so the second time finds one.
  for (size_t looked = 0; looked <= ring_.size() && !ring_.empty(); ++looked) {
    if (hand_ >= ring_.size()) hand_ = 0;
    Row& row = *ring_[hand_];
    if (!row.used || TooOld(row)) {
      Remove(row);
      return true;
    }
    row.used = false;
    ++hand_;
  }
  return false;
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
  size_t kept = 0;
  for (Row* row : ring_) {
    if (row->rows != &rows) {
      row->place = static_cast<uint32_t>(kept);
      ring_[kept++] = row;
      continue;
    }
    Forget(row->segment, row->pushed);
    Leave(*row);
    ForgetOwn(rows, *row, UINT64_MAX);
    bytes_ -= BytesOf(rows);
    ::operator delete(row);
  }
  ring_.resize(kept);
  rows.index = {};  // its memory too
  rows.sample.Clear();
}

void RowCache::ForgetRows(const TableInfo& table) {
  if (Rows* rows = Find(table.id)) Clear(*rows);
}

void RowCache::Remove(Row& row) {
  Forget(row.segment, row.pushed);
  Leave(row);
  ForgetOwn(*row.rows, row, UINT64_MAX);
  row.rows->index.erase(row.key);
  bytes_ -= BytesOf(*row.rows);
  ring_.back()->place = row.place;
  ring_[row.place] = ring_.back();
  ring_.pop_back();
  ::operator delete(&row);
}

}  // namespace paceline::sdk
