#include "libs/table/block_map.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::table {

RangedPage* BlockMap::Add(uint64_t block, std::unique_ptr<RangedPage> page) {
  std::unique_ptr<Chunk>& chunk = chunks_[block / kChunk];
  if (chunk == nullptr) chunk = std::make_unique<Chunk>();
  ++size_;
  return ((*chunk)[block % kChunk] = std::move(page)).get();
}

void BlockMap::ForEach(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const {
  std::vector<uint64_t> numbers;
  for (const auto& [number, chunk] : chunks_) {
    if (number >= from / kChunk) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  for (const uint64_t number : numbers) {
    const Chunk& chunk = *chunks_.at(number);
    for (size_t i = number == from / kChunk ? from % kChunk : 0; i < kChunk; ++i) {
      if (chunk[i] != nullptr && !visit(*chunk[i])) return;
    }
  }
}

uint64_t BlockMap::bytes() const {
  return chunks_.size() * sizeof(Chunk) + chunks_.capacity() * sizeof(Chunks::value_type);
}

uint64_t BlockMap::NewBytesBound(uint64_t more, uint64_t end) const {
  const uint64_t chunks = std::min(more, (end + kChunk - 1) / kChunk - chunks_.size());
  if (chunks == 0) return 0;
  // A hash map grows to less than four slots for each entry, or to a few.
  const uint64_t slots = std::max<uint64_t>(4 * (chunks_.size() + chunks) + 16, chunks_.capacity());
  return chunks * sizeof(Chunk) + (slots - chunks_.capacity()) * sizeof(Chunks::value_type);
}

}  // namespace paceline::table
