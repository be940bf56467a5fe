#include "sdk/cpp/src/buffer_pool.h"

namespace paceline::sdk {

Buffer BufferPool::Take(size_t bytes) {
  int size_class = 0;
  while (size_class < kClasses && (kSmallest << size_class) < bytes) ++size_class;
  if (bytes < kSmallest || size_class == kClasses) return AllocateFresh(bytes);
  std::unique_ptr<char[]> memory;
  {
    MutexLock lock(&mutex_);
    auto& free = free_[size_class];
    if (!free.empty()) {
      memory = std::move(free.back());
      free.pop_back();
      kept_ -= kSmallest << size_class;
    }
  }
  if (memory == nullptr) memory.reset(new char[kSmallest << size_class]);
  return {memory.release(), [pool = weak_from_this(), size_class](char* used) {
            if (const auto alive = pool.lock()) {
              alive->Return(used, size_class);
            } else {
              delete[] used;
            }
          }};
}

void BufferPool::Return(char* memory, int size_class) {
  std::unique_ptr<char[]> owned(memory);
  MutexLock lock(&mutex_);
  if (kept_ + (kSmallest << size_class) > kKeptBytes) return;
  kept_ += kSmallest << size_class;
  free_[size_class].push_back(std::move(owned));
}

}  // namespace paceline::sdk
