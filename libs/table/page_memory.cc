#include "libs/table/page_memory.h"

#include <atomic>

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

}  // namespace paceline::table
