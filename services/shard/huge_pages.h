#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/table/page_arenas.h"
#include "libs/table/page_memory.h"

namespace paceline::shard {

// Buffers of pages in memory that the kernel is asked to back with huge pages (madvise, MADV_HUGEPAGE). Where
// it knows none it gives no buffer, and pages lie on the heap. Thread-safe.
class HugePages final : public table::PageMemory {
 public:
  struct Bytes {
    uint64_t held = 0;  // from the kernel
    uint64_t used = 0;  // by pages
  };

  // Those of a shard's program; they outlive all tables.
  static HugePages& OfProcess();

  std::byte* Allocate(size_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool Free(std::byte* buffer) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Beyond the one arena that is always there. Takes no lock.
  uint64_t spare() const override { return spare_.load(std::memory_order_relaxed); }
  // While it lives, memory is plenty where less than `bytes` have come from the kernel, and
  // the kernel has huge pages. For one at a time.
  class PlentyBelow {
   public:
    PlentyBelow(HugePages& memory, uint64_t bytes) : memory_(memory) { memory_.plenty_below_ = bytes; }
    ~PlentyBelow() { memory_.plenty_below_ = 0; }
    PlentyBelow(const PlentyBelow&) = delete;

   private:
    HugePages& memory_;
  };
  bool plenty() const override {
    return held_.load(std::memory_order_relaxed) < plenty_below_.load(std::memory_order_relaxed);
  }
  Bytes bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Kernel final : public table::PageArenas::Source {
   public:
    std::byte* Take() override;
    void GiveBack(std::byte* arena) override;

    bool has_none() const { return has_none_; }

   private:
    bool has_none_ = false;
  };

  void NoteBytes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Kernel kernel_;
  std::atomic<uint64_t> spare_{0};
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> plenty_below_{0};
  mutable Mutex mutex_;
  table::PageArenas arenas_ ABSL_GUARDED_BY(mutex_){kernel_};
};

}  // namespace paceline::shard
