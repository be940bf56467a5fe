#include "libs/table/page.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "libs/ring/hash.h"
#include "libs/table/page_memory.h"

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

using KeyedRow = std::pair<uint64_t, uint32_t>;

// Orders rows by ascending key. A hash chose the keys of a page, so they are mostly spread evenly over some
// range: they are dealt to as many equal pieces of the range as there are keys, and each piece is sorted.
std::vector<KeyedRow> ByKey(const std::vector<KeyedRow>& rows) {
  std::vector<KeyedRow> order(rows.size());
  if (rows.empty()) return order;
  const auto [min, max] = std::minmax_element(rows.begin(), rows.end());
  const auto shift = std::max(std::bit_width(max->first - min->first), std::bit_width(rows.size())) -
                     std::bit_width(rows.size());
  const auto piece_of = [first = min->first, shift](uint64_t key) { return (key - first) >> shift; };
  std::vector<uint32_t> ends(piece_of(max->first) + 2);  // of the pieces, after they were dealt
  for (const auto& [key, row] : rows) ++ends[piece_of(key) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  for (const KeyedRow& row : rows) order[ends[piece_of(row.first)]++] = row;
  auto begin = order.begin();
  for (size_t piece = 0; piece + 1 < ends.size(); ++piece) {
    const auto end = order.begin() + ends[piece];
    if (end - begin > 1) std::sort(begin, end);
    begin = end;
  }
  return order;
}

}  // namespace

void Page::CopyRow(size_t row, float* packed) const {
  if (slot_stride_ == shape_.dim) {  // the layout is already the packed one
    std::memcpy(packed, Values(row), shape_.bytes());
    return;
  }
  for (uint32_t plane = 0; plane <= shape_.slots_per_value; ++plane) {
    std::memcpy(packed + plane * shape_.dim, Values(row) + plane * slot_stride(), shape_.dim * sizeof(float));
  }
}

void Page::SetRow(size_t row, const void* packed) {
  if (slot_stride_ == shape_.dim) {
    std::memcpy(Values(row), packed, shape_.bytes());
    return;
  }
  const size_t bytes = shape_.dim * sizeof(float);
  for (uint32_t plane = 0; plane <= shape_.slots_per_value; ++plane) {
    const std::byte* from = static_cast<const std::byte*>(packed) + plane * bytes;
    std::memcpy(Values(row) + plane * slot_stride(), from, bytes);
  }
}

PageImage Page::Image() const {
  PageImage image{range_, version_, std::vector<uint64_t>(rows_),
                  std::vector<float>(rows_ * shape_.floats())};
  if (index_ == nullptr) {
    std::iota(image.keys.begin(), image.keys.end(), range_.start);
    for (size_t row = 0; row < rows_; ++row) CopyRow(row, image.rows.data() + row * shape_.floats());
    return image;
  }
  std::vector<KeyedRow> rows;
  rows.reserve(rows_);
  ForEachRow([&](uint64_t key, size_t row) { rows.emplace_back(key, static_cast<uint32_t>(row)); });
  const std::vector<KeyedRow> order = ByKey(rows);
  for (size_t i = 0; i < rows_; ++i) {
    image.keys[i] = order[i].first;
    CopyRow(order[i].second, image.rows.data() + i * shape_.floats());
  }
  return image;
}

uint64_t Page::ContentHash() const {
  uint64_t sum = 0;
  ForEachRow([&](uint64_t key, size_t row) {
    RowHash hash(key);
    for (uint32_t plane = 0; plane <= shape_.slots_per_value; ++plane) {
      hash.Add(Values(row) + plane * slot_stride(), shape_.dim);
    }
    sum += hash.Get();
  });
  return sum;
}

}  // namespace paceline::table
