#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/types/span.h"

// Keys and values as they arrive: little-endian, packed, at any address. The views borrow the bytes and copy
// nothing; each access loads one element.
namespace paceline::table {

static_assert(
    std::endian::native == std::endian::little,
    "packed keys and values are used in place, so the machine must be little-endian as the wire is");

// `T`s packed at a possibly unaligned address. Free to copy; the bytes must outlive the view.
template <class T>
class PackedView {
 public:
  constexpr PackedView() = default;
  // Borrows `count` elements of sizeof(T) bytes from `data` on.
  PackedView(const void* data, size_t count) : data_(static_cast<const std::byte*>(data)), count_(count) {}
  // Borrows the elements of a vector, an array or a span, the aligned case of the same thing.
  template <class Elements>
  requires std::is_convertible_v<const Elements&, absl::Span<const T>> PackedView(
      const Elements& elements) {  // NOLINT(google-explicit-constructor)
    const absl::Span<const T> span(elements);
    *this = PackedView(span.data(), span.size());
  }

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const void* data() const { return data_; }

  // REQUIRES: i < size().
  T operator[](size_t i) const {
    T element;
    std::memcpy(&element, data_ + i * sizeof(T), sizeof(T));
    return element;
  }
  // Elements from .. from + count - 1. REQUIRES: they exist.
  PackedView subview(size_t from, size_t count) const { return {data_ + from * sizeof(T), count}; }

 private:
  const std::byte* data_ = nullptr;
  size_t count_ = 0;
};

using KeyView = PackedView<uint64_t>;
using ValueView = PackedView<float>;

}  // namespace paceline::table
