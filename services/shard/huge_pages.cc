#include "services/shard/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>

namespace paceline::shard {

// The kernel aligns a mapping to its small pages: twice as much has an aligned arena in it, and the rest is
// given back. It puts each mapping below the one before: the last arena in it has the earlier ones beside it,
// and all become one mapping. Of those a process has 65,530 (vm.max_map_count).
std::byte* HugePages::Kernel::Take() {
  constexpr size_t kBytes = table::PageArenas::kArenaBytes;
  if (has_none_) return nullptr;
  void* const mapped = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t after = reinterpret_cast<uintptr_t>(begin) % kBytes;
  std::byte* const arena = begin + (kBytes - after);
  munmap(begin, kBytes - after);
  if (after > 0) munmap(arena + kBytes, after);
  if (madvise(arena, kBytes, MADV_HUGEPAGE) == 0) return arena;
  has_none_ = true;
  munmap(arena, kBytes);
  return nullptr;
}

void HugePages::Kernel::GiveBack(std::byte* arena) {
  munmap(arena, table::PageArenas::kArenaBytes);
}

HugePages& HugePages::OfProcess() {
  static auto* const memory = new HugePages;
  return *memory;
}

std::byte* HugePages::Allocate(size_t bytes) {
  MutexLock lock(&mutex_);
  std::byte* const buffer = arenas_.Allocate(bytes);
  NoteBytes();
  return buffer;
}

bool HugePages::Free(std::byte* buffer) {
  MutexLock lock(&mutex_);
  const bool ours = arenas_.Free(buffer);
  NoteBytes();
  return ours;
}

void HugePages::NoteBytes() {
  // Pages that lie on the heap are not counted.
  held_.store(kernel_.has_none() ? UINT64_MAX : arenas_.held(), std::memory_order_relaxed);
  const uint64_t free = arenas_.held() - arenas_.used();
  spare_.store(free - std::min<uint64_t>(free, table::PageArenas::kArenaBytes), std::memory_order_relaxed);
}

HugePages::Bytes HugePages::bytes() const {
  MutexLock lock(&mutex_);
  return {.held = arenas_.held(), .used = arenas_.used()};
}

}  // namespace paceline::shard
