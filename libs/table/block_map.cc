#include "libs/table/block_map.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/table/invariant.h"

namespace paceline::table {

RangedPage* BlockMap::Add(uint64_t block, std::unique_ptr<RangedPage> page) {
  const uint64_t place = PlaceOf(block);
  std::unique_ptr<Chunk>& chunk = chunks_[place / kChunk];
  if (chunk == nullptr) {
    chunk = std::make_unique<Chunk>();
    const uint64_t number = place / kChunk;
    numbers_.insert(std::ranges::lower_bound(numbers_, number), number);
  }
  std::unique_ptr<RangedPage>& slot = (*chunk)[place % kChunk];
  if (slot != nullptr) Broken(absl::StrCat("block ", block, " has a page already"));
  ++size_;
  return (slot = std::move(page)).get();
}

bool BlockMap::OfOneSegment() const {
  const uint64_t low = (uint64_t{1} << ring_bits_) - 1;
  return numbers_.empty() ||
         ((BlockAt(numbers_.front() * kChunk) ^ BlockAt(numbers_.back() * kChunk)) & low) == 0;
}

std::optional<uint64_t> BlockMap::PlaceFrom(uint64_t block) const {
  const uint64_t step = uint64_t{1} << ring_bits_;
  const uint64_t low = BlockAt(numbers_.front() * kChunk) & (step - 1);
  const uint64_t first = (block & ~(step - 1)) | low;
  if (first >= block) return PlaceOf(first);
  if (first > UINT64_MAX - step) return std::nullopt;
  return PlaceOf(first + step);
}

void BlockMap::ForEach(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const {
  if (numbers_.empty()) return;
  if (!OfOneSegment()) return ForEachSorted(from, visit);
  const std::optional<uint64_t> place = PlaceFrom(from);
  if (!place.has_value()) return;
  uint64_t i = *place % kChunk;  // of the first chunk; later ones begin at 0
  for (auto number = std::ranges::lower_bound(numbers_, *place / kChunk); number != numbers_.end();
       ++number) {
    const Chunk& chunk = *chunks_.find(*number)->second;
    if (*number != *place / kChunk) i = 0;
    for (; i < kChunk; ++i) {
      if (chunk[i] != nullptr && !visit(*chunk[i])) return;
    }
  }
}

void BlockMap::ForEachSorted(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const {
  std::vector<std::pair<uint64_t, const RangedPage*>> blocks;
  for (const auto& [number, chunk] : chunks_) {
    for (size_t i = 0; i < kChunk; ++i) {
      const uint64_t block = BlockAt(number * kChunk + i);
      if ((*chunk)[i] != nullptr && block >= from) blocks.emplace_back(block, (*chunk)[i].get());
    }
  }
  std::ranges::sort(blocks);
  for (const auto& [block, page] : blocks) {
    if (!visit(*page)) return;
  }
}

uint64_t BlockMap::bytes() const {
  return chunks_.size() * sizeof(Chunk) + numbers_.capacity() * sizeof(uint64_t) +
         chunks_.capacity() * sizeof(Chunks::value_type);
}

uint64_t BlockMap::NewBytesBound(uint64_t more) const {
  if (more == 0) return 0;
  // A hash map grows to less than four slots for each entry, or to a few.
  const uint64_t slots = std::max<uint64_t>(4 * (chunks_.size() + more) + 16, chunks_.capacity());
  const uint64_t numbers =
      std::max<uint64_t>(2 * (numbers_.size() + more), numbers_.capacity()) - numbers_.capacity();
  return more * sizeof(Chunk) + numbers * sizeof(uint64_t) +
         (slots - chunks_.capacity()) * sizeof(Chunks::value_type);
}

}  // namespace paceline::table
