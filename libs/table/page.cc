#include "libs/table/page.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "libs/ring/hash.h"

namespace paceline::table {
namespace {

// Hashes a row's numbers one after the other.
class RowHash {
 public:
  explicit RowHash(uint64_t key) : state_(ring::Mix64(key + 1)) {}
  void Add(const float* values, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + i, sizeof(bits));
      state_ = (state_ ^ bits) * 0x9fb21c651e98df25u;
      state_ ^= state_ >> 32;
    }
  }
  uint64_t Get() const { return ring::Mix64(state_); }

 private:
  uint64_t state_;
};

}  // namespace

void Page::Release::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, std::align_val_t{kAlignment});
}

Page::Buffer Page::Allocate(size_t bytes) {
  return Buffer(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlignment})));
}

void Page::CopyRow(size_t row, float* packed) const {
  for (uint32_t plane = 0; plane <= shape_.slots_per_value; ++plane) {
    std::memcpy(packed + plane * shape_.dim, Values(row) + plane * slot_stride_, shape_.dim * sizeof(float));
  }
}

void Page::SetRow(size_t row, const void* packed) {
  const size_t bytes = shape_.dim * sizeof(float);
  for (uint32_t plane = 0; plane <= shape_.slots_per_value; ++plane) {
    const std::byte* from = static_cast<const std::byte*>(packed) + plane * bytes;
    std::memcpy(Values(row) + plane * slot_stride_, from, bytes);
  }
}

PageImage Page::Image() const {
  std::vector<size_t> order(rows_);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) { return Key(a) < Key(b); });
  PageImage image{range_, version_, std::vector<uint64_t>(rows_),
                  std::vector<float>(rows_ * shape_.floats())};
  for (size_t i = 0; i < rows_; ++i) {
    image.keys[i] = Key(order[i]);
    CopyRow(order[i], image.rows.data() + i * shape_.floats());
  }
  return image;
}

uint64_t Page::ContentHash() const {
  uint64_t sum = 0;
  for (size_t row = 0; row < rows_; ++row) {
    RowHash hash(Key(row));
    for (uint32_t plane = 0; plane <= shape_.slots_per_value; ++plane) {
      hash.Add(Values(row) + plane * slot_stride_, shape_.dim);
    }
    sum += hash.Get();
  }
  return sum;
}

}  // namespace paceline::table
