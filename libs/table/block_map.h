#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "libs/table/ranged_page.h"

namespace paceline::table {

// The pages of a ranged table by the numbers of their blocks. Blocks that are neighbours share an array: a
// look-up near the one before, as in a batch of ascending keys, takes no hash.
class BlockMap {
 private:
  static constexpr uint64_t kChunk = 256;
  using Chunk = std::array<std::unique_ptr<RangedPage>, kChunk>;

 public:
  // Where the look-up before was. It stays right while blocks are added.
  class Cursor {
   private:
    friend class BlockMap;
    uint64_t number_ = 0;
    const Chunk* chunk_ = nullptr;
  };

  // nullptr: there is none.
  ABSL_ATTRIBUTE_ALWAYS_INLINE RangedPage* Find(uint64_t block, Cursor& cursor) const {
    const uint64_t number = block / kChunk;
    if (number != cursor.number_ || cursor.chunk_ == nullptr) {
      const auto it = chunks_.find(number);
      if (it == chunks_.end()) return nullptr;
      cursor.number_ = number;
      cursor.chunk_ = it->second.get();
    }
    return (*cursor.chunk_)[block % kChunk].get();
  }
  // REQUIRES: the block has no page.
  RangedPage* Add(uint64_t block, std::unique_ptr<RangedPage> page);

  // Blocks that have a page.
  size_t size() const { return size_; }
  // In ascending order from block `from` on, until a visit returns false.
  void ForEach(uint64_t from, absl::FunctionRef<bool(const RangedPage&)> visit) const;

  // Bytes of memory held, beside the pages; and the most that `more` blocks below block `end` add.
  uint64_t bytes() const;
  uint64_t NewBytesBound(uint64_t more, uint64_t end) const;

 private:
  using Chunks = absl::flat_hash_map<uint64_t, std::unique_ptr<Chunk>>;

  Chunks chunks_;
  size_t size_ = 0;
};

}  // namespace paceline::table
