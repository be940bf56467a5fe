#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "libs/table/ranged_page.h"

namespace paceline::table {

// The pages of a ranged table in one segment by the numbers of their blocks. Such blocks have the last
// `ring_bits` bits of their numbers in common (placement.h). Those that follow one another in the segment
// share an array: a look-up near the one before, as in a batch of ascending keys, takes no hash.
class BlockMap {
 private:
  static constexpr uint64_t kChunk = 64;
  using Chunk = std::array<std::unique_ptr<RangedPage>, kChunk>;

 public:
  // Blocks of other segments are found, too; they take more memory.
  explicit BlockMap(int ring_bits) : ring_bits_(ring_bits) {}

  // Where the look-up before was. It stays right while blocks are added.
  class Cursor {
   private:
    friend class BlockMap;
    uint64_t number_ = 0;
    const Chunk* chunk_ = nullptr;
  };

  // nullptr: there is none.
  ABSL_ATTRIBUTE_ALWAYS_INLINE RangedPage* Find(uint64_t block, Cursor& cursor) const {
    const uint64_t place = PlaceOf(block);
    const uint64_t number = place / kChunk;
    if (number != cursor.number_ || cursor.chunk_ == nullptr) {
      const auto it = chunks_.find(number);
      if (it == chunks_.end()) return nullptr;
      cursor.number_ = number;
      cursor.chunk_ = it->second.get();
    }
    return (*cursor.chunk_)[place % kChunk].get();
  }
  // REQUIRES: the block has no page.
  RangedPage* Add(uint64_t block, std::unique_ptr<RangedPage> page);

  // Blocks that have a page.
  size_t size() const { return size_; }
  // In ascending order from block `from` on, until a visit returns false. O(log(blocks) + visits) for the
  // blocks of one segment, O(blocks) for others.
  void ForEach(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const;

  // Bytes of memory held, beside the pages; and the most that `more` blocks add.
  uint64_t bytes() const;
  uint64_t NewBytesBound(uint64_t more) const;

 private:
  using Chunks = absl::flat_hash_map<uint64_t, std::unique_ptr<Chunk>>;

  // The segment's blocks have successive places; no two blocks have the same.
  uint64_t PlaceOf(uint64_t block) const { return std::rotr(block, ring_bits_); }
  uint64_t BlockAt(uint64_t place) const { return std::rotl(place, ring_bits_); }
  // All blocks are of one segment: as the bits that they have in common lead their places, the chunks with
  // the smallest and the largest number tell.
  bool OfOneSegment() const;
  void ForEachSorted(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const;
  // The place of the first block at or after `block` that may be of the one segment; nullopt: none is.
  std::optional<uint64_t> PlaceFrom(uint64_t block) const;

  const int ring_bits_;
  Chunks chunks_;
  std::vector<uint64_t> numbers_;  // of chunks_, ascending
  size_t size_ = 0;
};

}  // namespace paceline::table
