#include "libs/table/sparse_page_pool.h"

#include <algorithm>
#include <new>

#include "libs/table/page_arenas.h"

namespace paceline::table {

SparsePagePool::~SparsePagePool() {
  for (const Chunk& chunk : chunks_) {
    for (size_t i = 0; i < chunk.size; ++i) chunk.at(i)->~SparsePage();
  }
}

size_t SparsePagePool::NextChunk(size_t pages) {
  constexpr size_t kMost = 1024;
  static_assert(kMost * sizeof(SparsePage) <= PageArenas::kBytesMax && alignof(SparsePage) <= kPageAlignment);
  return std::clamp<size_t>(pages / 8, 1, kMost);
}

SparsePage& SparsePagePool::Add(RowShape shape, uint64_t seed, PageRange range) {
  if (size_ == capacity_) {
    const size_t capacity = NextChunk(size_);
    chunks_.push_back({.memory = AllocatePageBuffer(capacity * sizeof(SparsePage)), .capacity = capacity});
    capacity_ += capacity;
  }
  Chunk& last = chunks_.back();
  SparsePage* const page = new (last.at(last.size)) SparsePage(shape, seed, range);
  ++last.size;
  ++size_;
  return *page;
}

uint64_t SparsePagePool::NewBytesBound(uint64_t more) const {
  const uint64_t needed = size_ + more;
  if (needed <= capacity_) return 0;
  return (needed - capacity_ + NextChunk(needed)) * sizeof(SparsePage);
}

}  // namespace paceline::table
