#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::sdk {

// Items of one size by number, in chunks of 2 MiB, or of up to twice as much, which the kernel is asked to
// back with huge pages. To grow copies nothing but the first chunk, which begins small. Has at most one chunk
// more than it needs. Single owner, no locks.
class Slabs {
 public:
  explicit Slabs(size_t item_bytes);

  // REQUIRES: there is room for it (MakeRoom).
  char* At(size_t item) const {
    return chunks_[item >> chunk_bits_].get() + (item & ((size_t{1} << chunk_bits_) - 1)) * item_bytes_;
  }
  // Room for items 0 .. items - 1. New ones have undefined content.
  void MakeRoom(size_t items) {
    if (items > room_) Grow(items);
  }
  // Items from `items` on are not needed any more.
  void Shrink(size_t items);
  void Clear();

 private:
  struct Freed {
    size_t alignment;
    void operator()(char* chunk) const;
  };
  using Chunk = std::unique_ptr<char[], Freed>;

  static Chunk NewChunk(size_t bytes);
  size_t ChunkItems() const { return size_t{1} << chunk_bits_; }
  void Grow(size_t items);

  const size_t item_bytes_;
  const int chunk_bits_;  // a chunk has so many items, as a power of two
  size_t room_ = 0;       // items
  std::vector<Chunk> chunks_;
};

}  // namespace paceline::sdk
