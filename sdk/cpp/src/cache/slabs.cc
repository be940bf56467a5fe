#include "sdk/cpp/src/cache/slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "libs/base/cache_line.h"

namespace paceline::sdk {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kFirstItems = 16;

// A chunk has the smallest power of two of items that fill a huge page.
int ChunkBits(size_t item_bytes) {
  return static_cast<int>(std::bit_width((kHugePage - 1) / item_bytes));
}

}  // namespace

void Slabs::Freed::operator()(char* chunk) const {
  ::operator delete[](chunk, std::align_val_t(alignment));
}

Slabs::Slabs(size_t item_bytes) : item_bytes_(item_bytes), chunk_bits_(ChunkBits(item_bytes)) {}

Slabs::Chunk Slabs::NewChunk(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLineBytes;
  auto* const chunk = static_cast<char*>(::operator new[](bytes, std::align_val_t(alignment)));
  // Where the kernel has none, small pages do.
  if (bytes >= kHugePage) (void)madvise(chunk, bytes, MADV_HUGEPAGE);
  return Chunk(chunk, Freed{.alignment = alignment});
}

void Slabs::Grow(size_t items) {
  if (room_ < ChunkItems()) {
    const size_t had = room_ * item_bytes_;
    room_ = std::min(ChunkItems(), std::bit_ceil(std::max(items, kFirstItems)));
    Chunk first = NewChunk(room_ * item_bytes_);
    if (had > 0) std::memcpy(first.get(), chunks_[0].get(), had);
    chunks_.resize(1);
    chunks_[0] = std::move(first);
  }
  for (; room_ < items; room_ += ChunkItems()) chunks_.push_back(NewChunk(ChunkItems() * item_bytes_));
}

// An item fewer and one more again is not to cost a chunk each time.
void Slabs::Shrink(size_t items) {
  const size_t chunks = (items + ChunkItems() / 2) / ChunkItems() + 1;
  if (chunks >= chunks_.size()) return;
  chunks_.resize(chunks);
  room_ = chunks * ChunkItems();
}

void Slabs::Clear() {
  chunks_.clear();
  room_ = 0;
}

}  // namespace paceline::sdk
