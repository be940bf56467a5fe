#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libs/table/page_memory.h"
#include "libs/table/sparse_page.h"

namespace paceline::table {

// Makes the pages of a sparse table, which stay where they are. The objects lie side by side in page memory:
// those of ten thousand pages are in one huge page of the machine, and are found without a miss in its tables
// of pages.
class SparsePagePool {
 public:
  SparsePagePool() = default;
  ~SparsePagePool();
  SparsePagePool(const SparsePagePool&) = delete;
  SparsePagePool& operator=(const SparsePagePool&) = delete;

  SparsePage& Add(RowShape shape, uint64_t seed, PageRange range);

  // Bytes of memory held, beside the buffers of the pages; and the most that `more` pages add.
  uint64_t bytes() const { return capacity_ * sizeof(SparsePage); }
  uint64_t NewBytesBound(uint64_t more) const;

 private:
  // Memory for some pages; the pages in it have been made in order.
  struct Chunk {
    PageBuffer memory;
    size_t capacity = 0;
    size_t size = 0;

    SparsePage* at(size_t i) const { return reinterpret_cast<SparsePage*>(memory.get()) + i; }
  };
  // The capacity of the next chunk, after `pages`: an eighth more.
  static size_t NextChunk(size_t pages);

  std::vector<Chunk> chunks_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace paceline::table
