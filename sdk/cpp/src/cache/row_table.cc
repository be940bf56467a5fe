#include "sdk/cpp/src/cache/row_table.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

namespace paceline::sdk {
namespace {

// A larger row is read in sequence, so that the hardware prefetches the rest.
constexpr size_t kPrefetched = 512;

// The index is filled to 3/4 at most, and then grows by a half. On average it is filled to 5/8.
constexpr uint64_t kFull = 3;  // of four
constexpr uint64_t kEntryBytes = 26;
// It is made smaller when it is filled to less than an eighth.
constexpr uint64_t kSparse = 8;
constexpr size_t kFewBuckets = 16;
constexpr size_t kFirstBuckets = 2;

static_assert(sizeof(RowTable::Entry) == 16 && offsetof(RowTable::Entry, key) == 0);
static_assert(std::is_trivially_copyable_v<RowTable::Rest>);

}  // namespace

RowTable::Bucket RowTable::no_rows_;

RowTable::RowTable(uint32_t dim)
    : row_bytes_(dim * sizeof(float)),
      prefetched_(std::min(row_bytes_, kPrefetched)),
      values_(row_bytes_),
      rests_(sizeof(Rest)) {}

uint64_t RowTable::RowBytes(uint32_t dim) {
  return dim * sizeof(float) + sizeof(Rest) + kEntryBytes;
}

RowTable::Row RowTable::Add(uint64_t key, SegmentId segment) {
  if (owned_buckets_ == nullptr) Rehash(kFirstBuckets);
  if ((uint64_t{size_} + 1) * kFour > Slots() * kFull) Rehash(bucket_count_ + bucket_count_ / 2);
  const uint32_t row = ++size_;
  values_.MakeRoom(row + 1);
  rests_.MakeRoom(row + 1);
  Entry& entry = FreeSlotFor(key);
  entry = {.key = key, .row = row};
  RestOf(entry) = {.key = key, .segment = segment};
  return RowOf(entry);
}

RowTable::Entry& RowTable::FreeSlotFor(uint64_t key) {
  size_t slot = BucketOf(key) * kFour;
  while (Slot(slot).row != 0) slot = Next(slot);
  return Slot(slot);
}

void RowTable::Rehash(size_t buckets) {
  const std::unique_ptr<Bucket[]> before = std::exchange(owned_buckets_, std::make_unique<Bucket[]>(buckets));
  const size_t count_before = before == nullptr ? 0 : bucket_count_;
  buckets_ = owned_buckets_.get();
  bucket_count_ = buckets;
  for (size_t b = 0; b < count_before; ++b) {
    for (const Entry& entry : before[b].entries) {
      if (entry.row != 0) FreeSlotFor(entry.key) = entry;
    }
  }
}

// Every row stays in the first free place that a search for it comes to.
void RowTable::Vacate(size_t slot) {
  for (size_t at = Next(slot); Slot(at).row != 0; at = Next(at)) {
    if (Distance(BucketOf(Slot(at).key) * kFour, at) < Distance(slot, at)) continue;
    Slot(slot) = Slot(at);
    slot = at;
  }
  Slot(slot) = {};
}

void RowTable::Remove(const Entry& entry) {
  const uint64_t row = entry.row;
  const uint64_t last = size_--;
  if (size_ == 0) return Clear();
  Vacate(static_cast<size_t>(&entry - buckets_[0].entries));
  if (row != last) {
    const auto& moved = *reinterpret_cast<const Rest*>(rests_.At(last));
    FindEntry(moved.key)->row = row;
    std::memcpy(rests_.At(row), &moved, sizeof(Rest));
    std::memcpy(values_.At(row), values_.At(last), row_bytes_);
  }
  values_.Shrink(last);
  rests_.Shrink(last);
  if (bucket_count_ > kFewBuckets && size_ * kSparse < Slots()) Rehash(bucket_count_ / 4);
}

void RowTable::Clear() {
  size_ = 0;
  buckets_ = &no_rows_;
  bucket_count_ = 1;
  owned_buckets_ = nullptr;
  values_.Clear();
  rests_.Clear();
}

}  // namespace paceline::sdk
