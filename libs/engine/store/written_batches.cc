#include "libs/engine/store/written_batches.h"

#include <algorithm>
#include <utility>

namespace paceline::engine {
namespace {

size_t Capacity(const rocksdb::WriteBatch& batch) {
  return batch.Data().capacity();
}

}  // namespace

rocksdb::WriteBatch WrittenBatches::New(size_t bytes) {
  const auto fits = std::ranges::find_if(spare_, [&](const auto& one) { return Capacity(one) >= bytes; });
  if (fits == spare_.end()) return rocksdb::WriteBatch(bytes);
  spare_bytes_ -= Capacity(*fits);
  std::swap(*fits, spare_.back());
  rocksdb::WriteBatch found = std::move(spare_.back());
  spare_.pop_back();
  found.Clear();
  return found;
}

void WrittenBatches::Add(uint64_t number, rocksdb::WriteBatch batch) {
  unsynced_.push_back({.number = number, .batch = std::move(batch)});
}

void WrittenBatches::Synced() {
  for (One& one : unsynced_) {
    const size_t bytes = Capacity(one.batch);
    if (bytes < kSpareLeast || spare_bytes_ + bytes > kSpareBytes) continue;
    spare_bytes_ += bytes;
    spare_.push_back(std::move(one.batch));
  }
  unsynced_.clear();
}

}  // namespace paceline::engine
