#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "rocksdb/write_batch.h"

namespace paceline::engine {

// The batches written since the last sync, by number: a disk error may take them away. Their memory is
// reused, since the kernel clears new memory first, which costs more than filling it. For one thread.
class WrittenBatches {
 public:
  // Bounds of the memory kept for reuse: at most kSpareBytes in all, in pieces of at least kSpareLeast.
  static constexpr size_t kSpareBytes = size_t{32} << 20;
  static constexpr size_t kSpareLeast = size_t{64} << 10;

  struct One {
    uint64_t number = 0;
    rocksdb::WriteBatch batch;
  };

  // An empty batch with room for so many bytes.
  rocksdb::WriteBatch New(size_t bytes);
  void Add(uint64_t number, rocksdb::WriteBatch batch);
  // All batches are safe.
  void Synced();

  // By ascending number, without gaps.
  std::deque<One>& unsynced() { return unsynced_; }

 private:
  std::deque<One> unsynced_;
  std::vector<rocksdb::WriteBatch> spare_;
  size_t spare_bytes_ = 0;
};

}  // namespace paceline::engine
