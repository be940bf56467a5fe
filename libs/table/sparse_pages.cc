#include "libs/table/sparse_pages.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/hash.h"
#include "libs/table/batch.h"
#include "libs/table/bucket_match.h"
#include "libs/table/invariant.h"
#include "libs/table/look_ahead.h"
#include "libs/table/table_copy.h"

namespace paceline::table {
namespace {

// Keys looked up side by side, so that their cache misses overlap.
constexpr size_t kLanes = PageMap::kFewKeys;
// Of rows that are fetched before their turn: so many stay in a core's nearest cache.
constexpr size_t kFetchedBytes = 4096;

}  // namespace

SparsePages::SparsePages(TableId table, const Schema& schema, int ring_bits)
    : shape_(RowShape::Of(schema)),
      ring_bits_(ring_bits),
      seed_(ring::Mix64(table.v)),
      init_row_(schema),
      directory_(&pages_.Add(shape_, seed_, PageRange{})) {}

uint64_t SparsePages::HashOf(uint64_t key) const {
  return ring::Mix64(key + seed_);
}

uint64_t SparsePages::bytes() const {
  return buffer_bytes_ + pages_.bytes() + directory_.bytes();
}

void SparsePages::ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const {
  for (uint64_t place = from;;) {
    const SparsePage& page = *directory_.Find(place);
    if (page.rows() > 0 && page.range().start >= from && !visit(page)) return;
    place = page.range().end();
    if (place == 0) return;
  }
}

void SparsePages::FindPages(KeyView keys, uint64_t* hashes, SparsePage** pages) const {
  ring::MixAll(seed_, keys.data(), keys.size(), hashes);
  for (size_t i = 0; i < keys.size(); ++i) {
    pages[i] = PageOf(hashes[i]);
    pages[i]->PrefetchPage();
  }
}

struct SparsePages::Few {
  // Sets the entries of the first `missed` of `missing`, which are not in their buckets.
  template <size_t kEntryFloats>
  void FindMissing(size_t missed) {
    const absl::Span<const uint32_t> those(missing, missed);
    for (const uint32_t j : those) pages[j]->PrefetchNextBucket(hashes[j]);
    for (const uint32_t j : those) {
      entries[j] = pages[j]->template FindEntry<kEntryFloats>(keys[j], hashes[j]);
      unborn |= entries[j] == nullptr;
    }
  }

  KeyView keys;
  uint64_t hashes[kLanes];
  SparsePage* pages[kLanes];
  float* buckets[kLanes];
  float* entries[kLanes];  // nullptr: the row is not born
  uint32_t missing[kLanes];
  bool unborn = false;  // is any row not born?
};

template <size_t kEntryFloats, class Take>
size_t SparsePages::FindEach(KeyView keys, Take take) const {
  Few both[2];
  const auto prepare = [&](size_t from, Few& few) {
    few.keys = keys.subview(from, std::min(kLanes, keys.size() - from));
    FindPages(few.keys, few.hashes, few.pages);
    for (size_t j = 0; j < few.keys.size(); ++j) few.buckets[j] = few.pages[j]->Bucket(few.hashes[j]);
    few.unborn = false;
  };
  prepare(0, both[0]);
  for (size_t j = 0; j < both[0].keys.size(); ++j) __builtin_prefetch(both[0].buckets[j]);
  size_t taken = 0;
  for (size_t now = 0; taken < keys.size(); now = 1 - now) {
    Few& few = both[now];
    Few& next = both[1 - now];
    const size_t end = taken + few.keys.size();
    prepare(end, next);
    const size_t missed = FindInBuckets<kEntryFloats>(
        {few.buckets, few.keys.size()}, few.keys, {next.buckets, next.keys.size()}, few.entries, few.missing);
    few.FindMissing<kEntryFloats>(missed);
    if (!take(taken, few)) return taken;
    taken = end;
  }
  return taken;
}

template <class Take>
size_t SparsePages::FindEach(KeyView keys, Take take) const {
  switch (SparsePage::EntryFloats(shape_)) {
    case 3:
      return FindEach<3>(keys, take);
    case 4:
      return FindEach<4>(keys, take);
    default:
      return FindEach<5>(keys, take);
  }
}

// Rows that are not narrow are fetched while the next keys are looked up.
template <class Value, class Enter, class Take>
size_t SparsePages::FindRows(KeyView keys, Enter enter, Take take) const {
  const auto may_enter = [&](const Few& few) {
    return !few.unborn && std::all_of(few.pages, few.pages + few.keys.size(),
                                      [&](SparsePage* page) { return enter(*page); });
  };
  if (SparsePage::Narrow(shape_)) {
    return FindEach(keys, [&](size_t i, const Few& few) {
      if (!may_enter(few)) return false;
      take(i, absl::Span<Value* const>(few.entries, few.keys.size()));
      return true;
    });
  }
  constexpr size_t kAtOnce = 8;
  constexpr size_t kRing = 2 * kLanes;
  const size_t bytes = shape_.dim * sizeof(float);
  const size_t ahead = std::clamp<size_t>(kFetchedBytes / bytes, kAtOnce, kLanes);
  Value* rows[kRing];
  size_t fetched = 0;
  size_t taken = 0;
  const auto take_some = [&](size_t count) {
    take(taken, absl::Span<Value* const>(&rows[taken % kRing], count));
    taken += count;
  };
  FindEach(keys, [&](size_t, const Few& few) {
    if (!may_enter(few)) return false;
    for (size_t j = 0; j < few.keys.size(); ++j) {
      Value* const row = few.pages[j]->ValuesAt(few.entries[j]);
      rows[fetched++ % kRing] = row;
      Prefetch(row, bytes);
      if (fetched - taken >= ahead + kAtOnce) take_some(kAtOnce);
    }
    return true;
  });
  while (taken < fetched) take_some(std::min(kAtOnce, fetched - taken));
  return taken;
}

size_t SparsePages::FindValues(KeyView keys, TakeValues take) const {
  if (SparsePage::Narrow(shape_) && shape_.dim != 1) return 0;
  return FindRows<const float>(
      keys, [](const SparsePage&) { return true; }, take);
}

size_t SparsePages::FindToUpdate(KeyView keys, Lsn version, TakeToUpdate take) {
  if (SparsePage::Narrow(shape_) ? shape_.dim != 1 : shape_.slots_per_value != 0) return 0;
  return FindRows<float>(keys, EnterFor(version), take);
}

void SparsePages::Locate(KeyView keys, RowRef* refs) const {
  FindEach(keys, [refs](size_t i, const Few& few) {
    for (size_t j = 0; j < few.keys.size(); ++j) {
      refs[i + j] = few.entries[j] == nullptr ? RowRef{nullptr, SparsePage::kNoRow}
                                              : RowRef{few.pages[j], few.pages[j]->RowAt(few.entries[j])};
    }
    return true;
  });
}

void SparsePages::Foresee(KeyView keys, LookAhead& ahead) const {
  for (size_t i = 0; i < keys.size(); ++i) ahead.Add(*PageOf(HashOf(keys[i])));
}

void SparsePages::LocateOrBear(KeyView keys, Lsn version, RowRef* refs) {
  Locate(keys, refs);
  const Renumbered renumbered = BearMissing(keys, version, refs);
  if (renumbered.empty()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (refs[i].page == nullptr || !renumbered.contains(refs[i].page)) continue;
    const uint64_t hash = HashOf(keys[i]);
    SparsePage* page = PageOf(hash);
    refs[i] = {page, page->Find(keys[i], hash)};
  }
}

SparsePages::Renumbered SparsePages::BearMissing(KeyView keys, Lsn version, RowRef* refs) {
  Renumbered renumbered;
  uint64_t hashes[kLanes];
  for (size_t begin = 0; begin < keys.size(); begin += kLanes) {
    const size_t end = std::min(begin + kLanes, keys.size());
    for (size_t i = begin; i < end; ++i) {
      if (refs[i].page != nullptr) continue;
      hashes[i - begin] = HashOf(keys[i]);
      PageOf(hashes[i - begin])->PrefetchBirth();
    }
    for (size_t i = begin; i < end; ++i) {
      if (refs[i].page == nullptr) refs[i] = FindOrBear(keys[i], hashes[i - begin], version, renumbered);
    }
  }
  return renumbered;
}

RowRef SparsePages::FindOrBear(uint64_t key, uint64_t hash, Lsn version, Renumbered& renumbered) {
  SparsePage* page = PageOf(hash);
  if (page->CameWith(version)) return {};
  const uint32_t row = page->Find(key, hash);  // born by an earlier occurrence?
  return row == SparsePage::kNoRow ? Bear(page, key, hash, renumbered) : RowRef{page, row};
}

RowRef SparsePages::Bear(SparsePage* page, uint64_t key, uint64_t hash, Renumbered& renumbered) {
  while (page->full()) {
    Split(page);
    renumbered.insert(page);
    page = PageOf(hash);
  }
  uint32_t row = 0;
  if (copy_ != nullptr) copy_->BeforeBirth(*page);
  const size_t capacity = page->capacity();
  Account(*page, [&] { row = page->Add(key, hash); });
  if (page->births_renumber() && page->capacity() != capacity) renumbered.insert(page);
  init_row_(key, page->Values(row), page->slot_stride());
  return {page, row};
}

template <class Change>
void SparsePages::Account(SparsePage& page, Change change) {
  rows_ -= page.rows();
  buffer_bytes_ -= page.buffer_bytes();
  needed_bytes_ -= page.needed_bytes();
  pages_with_rows_ -= page.rows() > 0 ? 1 : 0;
  change();
  rows_ += page.rows();
  buffer_bytes_ += page.buffer_bytes();
  needed_bytes_ += page.needed_bytes();
  pages_with_rows_ += page.rows() > 0 ? 1 : 0;
}

void SparsePages::Split(SparsePage* page) {
  if (page->range().depth >= 64 - ring_bits_) {
    // Places of one segment's keys are distinct, so some key must be another segment's.
    Broken(absl::StrCat("a page at place ", page->range().start, " has ", page->rows(),
                        " keys that share all ", page->range().depth,
                        " bits of it: they are not of one segment"));
  }
  SparsePage& upper = pages_.Add(shape_, seed_, PageRange{});
  if (copy_ != nullptr) copy_->BeforeSplit(*page, upper);
  Account(*page, [&] { Account(upper, [&] { page->Split(ring_bits_, upper); }); });
  directory_.Replace(page, &upper, pages_with_rows_);
}

// --- images ---

absl::StatusOr<std::vector<uint64_t>> SparsePages::CheckImage(const PageView& image) const {
  const PageRange& range = image.range;
  if (range.depth < 0 || range.depth > 64 - ring_bits_ ||
      (range.depth < 64 && (range.start << range.depth) != 0)) {
    return absl::DataLossError(absl::StrCat("page: its range starts at ", range.start, " and has ",
                                            range.depth, " bits; expected at most ", 64 - ring_bits_,
                                            " bits and 0 after them"));
  }
  if (image.keys.size() > SparsePage::MaxRows(shape_) ||
      image.rows.size() != image.keys.size() * shape_.floats()) {
    return absl::DataLossError(absl::StrCat("page: ", image.keys.size(), " keys and ", image.rows.size(),
                                            " floats; expected at most ", SparsePage::MaxRows(shape_),
                                            " keys with ", shape_.floats(), " floats each"));
  }
  std::vector<uint64_t> hashes(image.keys.size());
  for (size_t i = 0; i < image.keys.size(); ++i) {
    const uint64_t key = image.keys[i];
    hashes[i] = HashOf(key);
    if (range.Covers(PlaceOf(hashes[i])) && (i == 0 || image.keys[i - 1] < key)) continue;
    return absl::DataLossError(absl::StrCat("page: key ", key, " at position ", i,
                                            " is out of order or outside of the page's range"));
  }
  return hashes;
}

absl::Status SparsePages::Install(const PageView& image) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, CheckImage(image));
  const PageRange& range = image.range;
  SparsePage* page = directory_.Find(range.start);
  // A page wider than the image keeps the rows outside of the image's range.
  while (page->range().depth < range.depth && page->version() <= image.version) {
    Split(page);
    page = directory_.Find(range.start);
  }
  for (uint64_t place = range.start;;) {
    page = directory_.Find(place);
    if (page->version() <= image.version) Account(*page, [&] { Replace(*page, image, hashes); });
    place = page->range().end();
    if (place == 0 || !range.Covers(place)) return absl::OkStatus();
  }
}

void SparsePages::Replace(SparsePage& page, const PageView& image, const std::vector<uint64_t>& hashes) {
  const bool whole = page.range() == image.range;
  page.Reset(image.version, whole ? image.keys.size() : 0);
  if (whole) return page.Fill(image.keys, hashes, image.rows);
  for (size_t i = 0; i < image.keys.size(); ++i) {
    if (!page.range().Covers(PlaceOf(hashes[i]))) continue;
    page.AddPacked(image.keys[i], hashes[i], image.rows.subview(i * shape_.floats(), shape_.floats()).data());
  }
}

// --- bounds ---

uint64_t SparsePages::BufferBytesBound(uint64_t rows, uint64_t pages) const {
  const uint64_t capacity = (rows * 5 + 3) / 4;  // SparsePage::CapacityFor adds a quarter at most
  return capacity * SparsePage::RowBytesBound(shape_) + pages * SparsePage::kBufferSlack;
}

uint64_t SparsePages::SplitsBound(uint64_t births, uint64_t rows) const {
  // A range that is split has more rows than fit a page, and the ranges of one depth are disjoint.
  const uint64_t per_depth = std::min(births, rows / (SparsePage::MaxRows(shape_) + 1));
  return per_depth * (64 - ring_bits_);
}

uint64_t SparsePages::SplitBytesBound(uint64_t births, uint64_t splits) const {
  if (splits == 0) return 0;
  return pages_.NewBytesBound(splits) + directory_.BytesBound(pages_with_rows_ + births, splits) -
         directory_.bytes();
}

uint64_t SparsePages::NewBytesBound(size_t keys) const {
  // A birth makes one page grow by a quarter, or by a row, perhaps after a full page was split in two.
  const uint64_t max_rows = SparsePage::MaxRows(shape_);
  const uint64_t full = SparsePage::BufferBytes(shape_, max_rows);
  const uint64_t grown = std::max(BufferBytesBound(max_rows, 1) / 4, SparsePage::RowBytesBound(shape_)) +
                         SparsePage::kBufferSlack;
  const uint64_t one_by_one = keys * (grown + BufferBytesBound(max_rows, 2) - full);
  const uint64_t together = BufferBytesBound(rows_ + keys, pages_with_rows_ + keys) - needed_bytes_;
  return std::min(one_by_one, together) + SplitBytesBound(keys, SplitsBound(keys, rows_ + keys));
}

uint64_t SparsePages::NewBytesBound(KeyView keys) const {
  std::vector<RowRef> refs(keys.size());
  Locate(keys, refs.data());
  absl::flat_hash_map<const SparsePage*, uint64_t> births;
  uint64_t born = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (refs[i].page != nullptr) continue;
    ++births[PageOf(HashOf(keys[i]))];
    ++born;
  }
  uint64_t bytes = 0;
  uint64_t splits = 0;
  for (const auto& [page, count] : births) {
    const uint64_t rows = page->rows() + count;
    const bool splits_it = rows > SparsePage::MaxRows(shape_);
    if (splits_it) splits += SplitsBound(count, rows);
    const uint64_t then = splits_it ? BufferBytesBound(rows, count + 1)
                                    : SparsePage::BufferBytes(shape_, SparsePage::CapacityFor(shape_, rows));
    bytes += then - std::min<uint64_t>(then, page->buffer_bytes());  // it may have grown ahead
  }
  return bytes + SplitBytesBound(born, splits);
}

}  // namespace paceline::table
