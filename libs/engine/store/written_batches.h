#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "rocksdb/write_batch.h"

namespace paceline::engine {

// The batches that were written since the last sync, which an error of the disk may take away, by their
// numbers. Their memory is used again: new memory costs more than what is written to it, since the kernel
// clears it first. For one thread.
class WrittenBatches {
 public:
  // Of memory that waits to be used again: so much, in pieces that are worth it.
  static constexpr size_t kSpareBytes = size_t{32} << 20;
  static constexpr size_t kSpareLeast = size_t{64} << 10;

  struct One {
    uint64_t number = 0;
    rocksdb::WriteBatch batch;
  };

  // An empty batch with room for so many bytes.
  rocksdb::WriteBatch New(size_t bytes);
  void Add(uint64_t number, rocksdb::WriteBatch batch);
  // All of them are safe.
  void Synced();

  // By ascending numbers, which have no gaps.
  std::deque<One>& unsynced() { return unsynced_; }

 private:
  std::deque<One> unsynced_;
  std::vector<rocksdb::WriteBatch> spare_;
  size_t spare_bytes_ = 0;
};

}  // namespace paceline::engine
