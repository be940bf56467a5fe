#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

// A pool of memory for batches: the first access to fresh memory costs ten times a copy. Keeps at most
// kKeptBytes of unused buffers. Thread-safe; buffers may outlive the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static constexpr size_t kKeptBytes = size_t{256} << 20;

  Buffer Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kSmallest = 4096;  // smaller ones are left to malloc
  static constexpr int kClasses = 20;        // powers of two from kSmallest on; larger ones too

  void Return(char* memory, int size_class) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  std::array<std::vector<std::unique_ptr<char[]>>, kClasses> free_ ABSL_GUARDED_BY(mutex_);
  size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::sdk
