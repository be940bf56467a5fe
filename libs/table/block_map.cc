#include "libs/table/block_map.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/table/invariant.h"

namespace paceline::table {

RangedPage* BlockMap::Add(uint64_t block, std::unique_ptr<RangedPage> page) {
  const uint64_t place = PlaceOf(block);
  std::unique_ptr<Chunk>& chunk = chunks_[place / kChunk];
  if (chunk == nullptr) chunk = std::make_unique<Chunk>();
  std::unique_ptr<RangedPage>& slot = (*chunk)[place % kChunk];
  if (slot != nullptr) Broken(absl::StrCat("block ", block, " has a page already"));
  ++size_;
  return (slot = std::move(page)).get();
}

// Uses a heap: the visitor may want only the first few of many blocks.
void BlockMap::ForEach(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const {
  std::vector<std::pair<uint64_t, const RangedPage*>> heap;
  for (const auto& [number, chunk] : chunks_) {
    for (size_t i = 0; i < kChunk; ++i) {
      const uint64_t block = BlockAt(number * kChunk + i);
      if ((*chunk)[i] != nullptr && block >= from) heap.emplace_back(block, (*chunk)[i].get());
    }
  }
  const auto later = std::greater<>();
  for (std::make_heap(heap.begin(), heap.end(), later); !heap.empty(); heap.pop_back()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    if (!visit(*heap.back().second)) return;
  }
}

uint64_t BlockMap::bytes() const {
  return chunks_.size() * sizeof(Chunk) + chunks_.capacity() * sizeof(Chunks::value_type);
}

uint64_t BlockMap::NewBytesBound(uint64_t more) const {
  if (more == 0) return 0;
  // A hash map grows to less than four slots for each entry, or to a few.
  const uint64_t slots = std::max<uint64_t>(4 * (chunks_.size() + more) + 16, chunks_.capacity());
  return more * sizeof(Chunk) + (slots - chunks_.capacity()) * sizeof(Chunks::value_type);
}

}  // namespace paceline::table
