#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "libs/table/directory.h"
#include "libs/table/page_map.h"
#include "libs/table/sparse_page.h"
#include "libs/table/sparse_page_pool.h"

namespace paceline::table {

// The pages of a sparse table in one segment.
class SparsePages final : public PageMap {
 public:
  SparsePages(TableId table, const Schema& schema, int ring_bits);

  void Locate(KeyView keys, RowRef* refs) const override;
  void LocateOrBear(KeyView keys, Lsn version, RowRef* refs) override;
  size_t FindValues(KeyView keys, TakeValues take) const override;
  size_t FindToUpdate(KeyView keys, Lsn version, TakeToUpdate take) override;
  void Foresee(KeyView keys, LookAhead& ahead) const override;
  uint64_t rows() const override { return rows_; }
  uint64_t bytes() const override;
  uint64_t NewBytesBound(size_t keys) const override;
  uint64_t NewBytesBound(KeyView keys) const override;
  void ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const override;
  absl::Status Install(const PageView& image) override;

 private:
  uint64_t HashOf(uint64_t key) const;
  uint64_t PlaceOf(uint64_t hash) const { return hash << ring_bits_; }
  SparsePage* PageOf(uint64_t hash) const { return directory_.Find(PlaceOf(hash)); }

  // The hash and the page of each key; begins to fetch the pages.
  void FindPages(KeyView keys, uint64_t* hashes, SparsePage** pages) const;
  // Some keys that are looked up together.
  struct Few;
  // Calls take(i, few) for some keys at a time, from keys[i] on, until it returns false; returns the number
  // of keys before those.
  template <size_t kEntryFloats, class Take>
  size_t FindEach(KeyView keys, Take take) const;
  // The same for the entries of these rows.
  template <class Take>
  size_t FindEach(KeyView keys, Take take) const;
  // Calls take(i, rows) for some keys at a time, rows[j] being the values of keys[i + j], until a row is not
  // born or enter(page) refuses its page; returns the number of keys taken.
  template <class Value, class Enter, class Take>
  size_t FindRows(KeyView keys, Enter enter, Take take) const;
  // Pages some of whose rows have got other numbers, or lie in another page now.
  using Renumbered = absl::flat_hash_set<const Page*>;
  // Sets refs[i] for the keys whose ref has no page yet. Refs to the pages in the result do not hold any
  // more.
  Renumbered BearMissing(KeyView keys, Lsn version, RowRef* refs);
  // The row of a key; without a page if its page came with that version's updates.
  RowRef FindOrBear(uint64_t key, uint64_t hash, Lsn version, Renumbered& renumbered);
  // Adds the row of a key that has none to `page`, its page, which is split before if it is full.
  RowRef Bear(SparsePage* page, uint64_t key, uint64_t hash, Renumbered& renumbered);
  void Split(SparsePage* page);
  // Runs `change` on a page and keeps the totals right.
  template <class Change>
  void Account(SparsePage& page, Change change);

  // Returns the hashes of the image's keys.
  absl::StatusOr<std::vector<uint64_t>> CheckImage(const PageView& image) const;
  // Replaces the rows of `page` by those of the image that it covers.
  void Replace(SparsePage& page, const PageView& image, const std::vector<uint64_t>& hashes);

  // Upper bounds: of the bytes that pages of so many rows hold in all, and of the splits that lead to them.
  uint64_t BufferBytesBound(uint64_t rows, uint64_t pages) const;
  uint64_t SplitsBound(uint64_t births, uint64_t rows) const;
  // The bytes that splits add beside buffers.
  uint64_t SplitBytesBound(uint64_t births, uint64_t splits) const;

  RowShape shape_;
  int ring_bits_;
  uint64_t seed_;  // Mix64(table)
  RowInit init_row_;
  SparsePagePool pages_;
  Directory directory_;
  uint64_t rows_ = 0;
  uint64_t buffer_bytes_ = 0;
  uint64_t needed_bytes_ = 0;  // SparsePage::needed_bytes() of all pages
  size_t pages_with_rows_ = 0;
};

}  // namespace paceline::table
