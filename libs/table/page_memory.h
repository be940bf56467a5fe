#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libs/base/cache_line.h"

namespace paceline::table {

// Where large buffers come from if the heap is not the best place: of pages, and of their objects.
// Thread-safe.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  // At least `bytes` bytes, aligned to a cache line. nullptr: none of that size; the heap is asked.
  virtual std::byte* Allocate(size_t bytes) = 0;
  // Takes a buffer back. False: it is not from here.
  virtual bool Free(std::byte* buffer) = 0;
  // Bytes that it holds and no buffer uses, and that the next buffers get.
  virtual uint64_t spare() const { return 0; }
  // True: pages that grow may take up to three times what they need, so that they are copied less often.
  virtual bool plenty() const { return false; }
};

// From now on all pages of the process ask `memory` first, which must live as long as they do. nullptr, as at
// first: only the heap. It changes where rows lie and how much memory they take, and nothing else that can be
// seen of them.
void UsePageMemory(PageMemory* memory);
PageMemory* PageMemoryInUse();

// A buffer from the memory in use, or else from the heap; aligned to a cache line.
inline constexpr size_t kPageAlignment = kCacheLineBytes;
struct ReleasePageBuffer {
  void operator()(std::byte* bytes) const;
};
using PageBuffer = std::unique_ptr<std::byte[], ReleasePageBuffer>;
PageBuffer AllocatePageBuffer(size_t bytes);

// Of the memory in use.
inline uint64_t SparePageBytes() {
  const PageMemory* const memory = PageMemoryInUse();
  return memory == nullptr ? 0 : memory->spare();
}
inline bool MemoryIsPlenty() {
  const PageMemory* const memory = PageMemoryInUse();
  return memory != nullptr && memory->plenty();
}

}  // namespace paceline::table
