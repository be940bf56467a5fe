#include "libs/table/page_memory.h"

#include <atomic>
#include <new>

namespace paceline::table {
namespace {

std::atomic<PageMemory*> in_use{nullptr};

}  // namespace

void UsePageMemory(PageMemory* memory) {
  in_use.store(memory, std::memory_order_release);
}

PageMemory* PageMemoryInUse() {
  return in_use.load(std::memory_order_acquire);
}

void ReleasePageBuffer::operator()(std::byte* bytes) const {
  PageMemory* const memory = PageMemoryInUse();
  if (memory != nullptr && memory->Free(bytes)) return;
  ::operator delete[](bytes, std::align_val_t{kPageAlignment});
}

PageBuffer AllocatePageBuffer(size_t bytes) {
  PageMemory* const memory = PageMemoryInUse();
  std::byte* const buffer = memory == nullptr ? nullptr : memory->Allocate(bytes);
  if (buffer != nullptr) return PageBuffer(buffer);
  return PageBuffer(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kPageAlignment})));
}

}  // namespace paceline::table
